"""Calls of a model's API by 20 tenants with plans, within the limits of the API."""
