"""The loops of the leader, one duty a file."""
