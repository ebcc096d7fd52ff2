"""Fireworq's queues, routings and job numbers in terms of this service."""
