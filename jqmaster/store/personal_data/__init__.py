"""Everything in a shard that may hold data of a person, read in pages."""
