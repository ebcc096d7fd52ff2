"""Users, sessions, tokens, and the audit log."""
