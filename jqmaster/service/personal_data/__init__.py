"""Use cases of data about a person: find such data everywhere, and erase them from jobs."""
