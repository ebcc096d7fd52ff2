"""Challenges, and the forms that people answer."""
