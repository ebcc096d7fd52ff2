"""Data about a person in jobs and in what jobs leave behind: how they are recognised, and how parts of a job are
erased."""
