"""The fields of the calls that a worker makes. This package does not import the API.
tests/contract/test_conformance_fields.py compares these fields with the schemas of the API."""

from typing import Final

REGISTRATION: Final = frozenset(
    {"url", "names", "max_jobs", "node_id", "pid", "labels", "version", "secret", "place", "contracts"}
)
POLL: Final = frozenset({"max", "wait", "poll_id", "refused", "withdraw"})
HEARTBEAT: Final = frozenset({"running", "free", "as_of_ms", "max_jobs", "asks_to_continue", "proof"})
CLAIM: Final = frozenset({"job_id", "token"})
REPORTED_CLAIM: Final = CLAIM | {"progress", "checkpoint", "seq"}
