"""Logs of jobs in the store."""
