"""The loop that moves namespaces."""
