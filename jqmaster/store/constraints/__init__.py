"""Constraint documents, the usage of constraints, and the facts about why jobs wait."""
