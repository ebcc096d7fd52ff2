"""Definitions: jobs that a schedule starts."""
