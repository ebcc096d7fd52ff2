"""Jobs: their states, terms, attempts and endings."""
