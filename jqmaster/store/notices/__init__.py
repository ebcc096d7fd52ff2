"""Notices in the store: what people want to be told of, and what they were told."""
