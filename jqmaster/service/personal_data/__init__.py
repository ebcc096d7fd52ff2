"""Data about a person: finding them everywhere, and erasing them from jobs."""
