"""Fireworq's HTTP API, served on request."""
