"""Events: accepting, collecting and listing them."""
