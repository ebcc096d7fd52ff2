"""The loops of the leader, one duty per file."""
