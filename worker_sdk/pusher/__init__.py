"""Clients that enqueue jobs and read their results."""

from worker_sdk.pusher.client import Pusher
from worker_sdk.pusher.ids import new_job_id
from worker_sdk.pusher.jobs import JobOptions, make_job
from worker_sdk.pusher.results import JobResult
from worker_sdk.pusher.sync_client import SyncPusher

__all__ = ["JobOptions", "JobResult", "Pusher", "SyncPusher", "make_job", "new_job_id"]
