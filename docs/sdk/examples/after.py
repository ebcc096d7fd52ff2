# Shows: After
from worker_sdk import After, SyncPusher

if __name__ == "__main__":
    with SyncPusher() as pusher:
        loads = [pusher.enqueue("rows.load", {"part": part}, delay=3600) for part in (1, 2)]
        pusher.enqueue("rows.join", after=loads)  # when both have succeeded
        cleanup = pusher.enqueue("rows.remove", after=After(loads, when="finished"))  # whatever happened
        status = pusher.status(cleanup)
        assert status is not None and status["state"] == "awaiting_jobs"
        for job_id in loads:
            pusher.cancel(job_id)
