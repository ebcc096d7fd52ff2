"""A release and the one before it: data of the former one, and both at work on one store."""
