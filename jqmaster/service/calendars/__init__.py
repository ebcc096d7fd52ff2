"""Use cases of calendars: change calendars, and get holidays from their sources."""
