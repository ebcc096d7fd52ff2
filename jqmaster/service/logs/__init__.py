"""Logs of jobs: taken from workers, given to people, and their end."""
