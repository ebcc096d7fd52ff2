"""Batches: jobs that belong together."""
