"""A conformance kit that checks everything that docs/worker_protocol.md and the API promise of a worker or a master.

It has its own HTTP code and knows nothing of the rest of the package. Its expectations come from the documents.
"""
