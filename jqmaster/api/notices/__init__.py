"""Telling others what became of jobs, over HTTP."""
