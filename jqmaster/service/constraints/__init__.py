"""Use cases of constraints: read, change and preview constraints, and pause jobs."""
