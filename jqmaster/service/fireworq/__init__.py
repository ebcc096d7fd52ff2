"""Use cases of the Fireworq gateway: its queues, and pushes to the queues."""
