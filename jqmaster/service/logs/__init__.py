"""Logs of jobs: storing, reading and archiving them."""
