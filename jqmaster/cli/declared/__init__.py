"""Documents that files declare, and the calls that change a master accordingly."""
