"""Handlers of the tests, in a worker that names no machine."""

from tests.support.workers import worker

worker.node_id = "node-2"

__all__ = ["worker"]
