"""A conformance kit: asks a worker, or a master, everything that docs/worker_protocol.md and the API promise.

It speaks HTTP by itself and knows nothing of the rest of the package: what it believes, the documents say.
"""
