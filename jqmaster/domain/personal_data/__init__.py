"""Data about a person in jobs and in what jobs leave behind. This package finds such data, and erases parts of jobs."""
