"""Definitions over HTTP: documents, previews, runs and backfills."""
