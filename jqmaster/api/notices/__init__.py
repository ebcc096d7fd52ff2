"""Notices to people, and webhooks about the ends of jobs, over HTTP."""
