"""Batches in the store."""
