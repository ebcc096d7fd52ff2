"""Constraints over HTTP: documents, overrides, usage and previews."""
