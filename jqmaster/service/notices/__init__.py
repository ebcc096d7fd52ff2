"""Use cases of notices to people, and of webhooks about the ends of jobs."""
