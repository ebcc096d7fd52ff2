"""Namespaces: the separate queues of one installation, all under one address."""
