"""Queues and routings of the Fireworq gateway."""
