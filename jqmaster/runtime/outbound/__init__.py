"""Calls from a master to workers, HTTP targets, webhooks and mail servers."""
