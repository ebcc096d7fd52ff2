"""Definitions, their clocks and their run records."""
