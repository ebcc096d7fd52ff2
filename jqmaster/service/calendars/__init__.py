"""Calendars: their sources, and operators' changes."""
