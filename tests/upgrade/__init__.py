"""A release and the one before it: data of the former release, and both releases at work on one store."""
