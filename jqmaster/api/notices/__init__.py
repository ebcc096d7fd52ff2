"""Notices to people, and webhooks that report the end of jobs, over HTTP."""
