"""Notices in the store: their conditions and receivers, and the messages that were sent."""
