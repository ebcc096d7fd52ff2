"""The queues of the Fireworq gateway, and the pushes to them."""
