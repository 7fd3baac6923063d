"""pptrace: see, check, explain and teach pipeline-parallel training schedules."""

__version__ = "0.1.0"
