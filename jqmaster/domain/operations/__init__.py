"""The masters of a store, and the counts that metrics and history are made of."""
