"""Data about a person: found everywhere, and erased from jobs."""
