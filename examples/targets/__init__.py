"""Endpoints that do jobs without an SDK."""
