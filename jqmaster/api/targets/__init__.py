"""The API of HTTP targets."""
