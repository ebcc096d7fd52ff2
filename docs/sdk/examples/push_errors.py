# Shows: WorkerSdkError, RefusedError, UnavailableError, AnswerMismatchError
from worker_sdk import (
    AnswerMismatchError,
    NotFinished,
    RefusedError,
    SyncPusher,
    UnavailableError,
    WorkerSdkError,
)


def enqueue(pusher: SyncPusher, priority: int) -> str:
    try:
        job_id = pusher.enqueue("mail.send", {"user_id": 42}, priority=priority, delay=3600)
        pusher.result(job_id, wait=0)
    except RefusedError as refused:
        return f"never: {refused.status} {refused.code}"
    except NotFinished as waiting:
        return f"later: {waiting.state}"
    except (UnavailableError, AnswerMismatchError) as lost:
        return f"perhaps: {lost}"
    except WorkerSdkError as other:
        return f"something else: {other}"
    return job_id


if __name__ == "__main__":
    with SyncPusher(max_wait_s=10) as pusher:
        assert enqueue(pusher, priority=0) == "later: scheduled"
        assert enqueue(pusher, priority=10**12) == "never: 422 invalid"
