"""Deliveries of jobs to HTTP targets."""
