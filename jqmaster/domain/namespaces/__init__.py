"""Namespaces: each has everything that an installation has, under one address with the others."""
