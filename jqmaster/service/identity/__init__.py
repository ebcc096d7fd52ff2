"""Use cases of users, sessions and tokens, and entries of the audit log."""
