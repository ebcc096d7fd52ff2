"""A conformance kit. It checks that a worker or a master keeps all promises of docs/worker_protocol.md and of the
API.

The kit has its own HTTP code and imports nothing else from the package. Its expectations come from the documents."""
