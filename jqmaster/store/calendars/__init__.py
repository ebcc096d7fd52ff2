"""Calendars, and which definitions use them."""
