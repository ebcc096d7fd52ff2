"""Calendars: days off, and their sources."""
