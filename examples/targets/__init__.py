"""HTTP endpoints that run jobs without an SDK."""
