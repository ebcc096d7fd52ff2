"""20 tenants with plans call a model's API, within the limits of the API."""
