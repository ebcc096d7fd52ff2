"""Use cases of HTTP targets."""
