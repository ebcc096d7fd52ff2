"""Documents that files declare, and the calls that make a master agree with them."""
