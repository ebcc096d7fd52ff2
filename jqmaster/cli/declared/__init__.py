"""Documents that files declare, and the calls that bring a master into that state."""
