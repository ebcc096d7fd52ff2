"""Use cases of users, sessions and tokens, and the audit log."""
