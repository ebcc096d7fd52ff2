"""Elect the leader, watch it, and let masters find each other."""
