"""Calls from a master to workers: offers, orders, signatures, the HTTP client."""
