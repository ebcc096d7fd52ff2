# Shows: Tasks, Task, Calls
from worker_sdk import Task, Tasks

tasks = Tasks()


@tasks.task("poster.resize", timeout=60, keep_result=True)
def resize(photo_id: int, width: int = 320) -> str:
    return f"{photo_id}-{width}.webp"


same_task: Task[..., str] = resize  # what the decorator has made

if __name__ == "__main__":
    assert resize(42) == "42-320.webp"  # an ordinary call
    handle = resize.enqueue(42)  # a job
    resize.using(priority=-5, max_retry=8).enqueue(43, width=640)  # options for this job
    resize.many(resize.to_job(photo_id) for photo_id in range(44, 50))  # in bulk
    assert handle.get(timeout=30) == "42-320.webp"
