"""Health, metrics, statistics, live settings, masters and the live feed over HTTP."""
