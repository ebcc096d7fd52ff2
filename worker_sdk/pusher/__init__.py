"""Clients that enqueue jobs and read their results."""

from worker_sdk.pusher.client import JobOptions, JobResult, Pusher, SyncPusher, make_job, new_job_id

__all__ = ["JobOptions", "JobResult", "Pusher", "SyncPusher", "make_job", "new_job_id"]
