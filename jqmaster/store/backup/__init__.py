"""Backups of a shard: copying all keys as of one instant while masters serve, and restoring them."""
