"""Backups of a shard: a copy of all its keys at one instant, taken while masters serve, and its way back."""
