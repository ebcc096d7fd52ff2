"""Clients that reach a master, one for event loops and one for threads, and the choice among several masters."""
