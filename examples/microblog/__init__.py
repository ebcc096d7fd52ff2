"""A microblog on Django with 100,000 followers: one job for each feed that gets a post."""
