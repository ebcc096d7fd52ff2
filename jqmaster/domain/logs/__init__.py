"""Logs of jobs: lines that handlers write while they run."""
