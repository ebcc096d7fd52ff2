"""Callers: scopes, roles, passwords and quotas."""
