"""Batches of jobs."""
