# Shows: Batch
from worker_sdk import Batch, Tasks

tasks = Tasks()


@tasks.task("photo.shrink")
def shrink(photo: int) -> None: ...


@tasks.task("album.publish")
def publish(album: int) -> None: ...


if __name__ == "__main__":
    with Batch(on_success=publish.to_job(7), description="Album 7") as batch:
        shrink.using(batch=batch).enqueue(1)
        batch.add(shrink.to_job(photo) for photo in (2, 3))  # many in one call
    # The block has sealed the batch: `publish` starts when all three have succeeded.
    assert batch.status()["counts"]["total"] == 3
