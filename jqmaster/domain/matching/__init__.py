"""Matchers of jobs and events, the values that they read, and the labels that jobs require."""
