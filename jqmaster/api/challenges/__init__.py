"""Challenges over HTTP."""
