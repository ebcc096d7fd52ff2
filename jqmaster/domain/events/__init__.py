"""Events that applications send, and what definitions make of them."""
