"""Conditions on jobs and events, the labels that jobs ask for, and the values that they look at."""
