# Shows: JobHandle, JobProgress
from worker_sdk import INJECTED, Context, JobHandle, JobProgress, Tasks

tasks = Tasks()


@tasks.task("album.count", keep_result=True)
def count(album: str, ctx: Context = INJECTED) -> int:
    ctx.progress(1.0, "all photos")
    return 3


def told(progress: JobProgress | None) -> str:
    return progress.message if progress else "nothing yet"


if __name__ == "__main__":
    handle: JobHandle[int] = count.enqueue("holidays")
    assert handle.get(timeout=30) == 3
    assert handle.refresh().status == "succeeded"
    assert told(handle.progress()) == "all photos"
    assert count.handle(handle.id).name == "album.count"  # elsewhere, from the ID
