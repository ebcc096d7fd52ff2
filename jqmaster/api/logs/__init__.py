"""Logs of jobs over HTTP."""
