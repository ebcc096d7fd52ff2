"""Constraint documents, their usage, and the facts behind "why does it wait?"."""
