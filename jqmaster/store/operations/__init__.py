"""Bulk actions, live settings, history, and what dashboards read."""
