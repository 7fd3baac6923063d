"""Lesson pages about one report: what they say, without a medium, and one small writer per medium."""
