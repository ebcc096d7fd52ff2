"""Namespaces and their stores over HTTP."""
