"""Events: accepting, gathering and listing them."""
