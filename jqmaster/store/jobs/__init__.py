"""Transitions and reads of jobs."""
