"""Use cases of events: accept, collect and list events."""
