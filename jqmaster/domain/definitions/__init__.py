"""Definitions: jobs that schedules and events start."""
