"""A conformance kit that checks everything that docs/worker_protocol.md and the API promise of a worker or a master.

The kit has its own HTTP code and imports nothing else of the package. Its expectations come from the documents.
"""
