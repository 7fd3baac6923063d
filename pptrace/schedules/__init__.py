"""Schedules: a registry, and one file per family, each a pure function of its parameters. No times, no costs."""
