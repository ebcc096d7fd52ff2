"""Constraints: the kinds of limits, gates and lanes."""
