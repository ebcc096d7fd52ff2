"""Telling others what became of jobs."""
