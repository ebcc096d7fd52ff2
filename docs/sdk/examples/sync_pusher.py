# Shows: SyncPusher, JobResult
from worker_sdk import JobResult, SyncPusher, Tasks

tasks = Tasks()


@tasks.task("number.double")
def double(number: int) -> int:
    return number * 2


def told(result: JobResult | None) -> str:
    if result is None:
        return "nothing was kept"
    return f"{result.result}" if result.is_success else f"failed: {result.message}"


if __name__ == "__main__":
    with SyncPusher() as pusher:  # JQMASTER_URL
        job_id = pusher.enqueue("number.double", {"number": 21}, keep_result=True)
        assert told(pusher.result(job_id, wait=30)) == "42"
