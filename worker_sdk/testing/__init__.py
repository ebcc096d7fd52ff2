"""Test code that enqueues or handles jobs, without a master."""

from worker_sdk.testing.harness import Ending, WorkerHarness
from worker_sdk.testing.kit import drain, inline, recording
from worker_sdk.testing.records import Recorded, Run

__all__ = ["Ending", "Recorded", "Run", "WorkerHarness", "drain", "inline", "recording"]
