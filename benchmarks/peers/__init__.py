"""Runs the same job in other queues and in this one, in turns."""
