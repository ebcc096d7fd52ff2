"""Tasks that are called like functions: what a worker would fill."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from worker_sdk import INJECTED, INPUT, Context, Depends, Tasks
from worker_sdk.testing import inline, recording

if TYPE_CHECKING:
    from decimal import Decimal as Price

tasks = Tasks()


@tasks.task("photo.index", timeout=timedelta(minutes=2))
def index(photo_id: int, ctx: Context = INJECTED) -> dict[str, Any]:
    ctx.logger.info("indexing %s", photo_id)
    for number in ctx.iterate([1, 2]):
        ctx.progress(number / 2)
    ctx.save({"at": photo_id})
    ctx.used(tokens=3)
    ctx.observed("openai", remaining=1, resets_s=2)
    ctx.emit(photo_id)
    return {
        "name": ctx.name,
        "attempt": ctx.attempt,
        "id": ctx.job_id,
        "left": ctx.remaining(),
        "inputs": len(ctx.inputs),
    }


@tasks.task("album.index", keep_result=True)
def index_album(*, ctx: Context = INJECTED) -> bool:
    return index(1)["id"] == ctx.job_id


@tasks.task("photo.approve")
def approve(photo_id: int, *, ctx: Context = INJECTED) -> None:
    ctx.open_challenge()


def opened() -> Iterator[int]:
    yield 1


@tasks.task("photo.import")
def import_photo(url: str, size: int = INPUT, connection: int = Depends(opened)) -> tuple[str, int, int]:
    return url, size, connection


@tasks.task("photo.mail")
def mail(photo_id: int, ctx: Context = INJECTED) -> str:
    ctx.enqueue("mail.send", {"photo": photo_id})
    return f"mailed {photo_id}"


def test_a_direct_call_gets_a_context_that_reports_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "worker_sdk.job")
    told = index(42)
    assert (told["name"], told["attempt"], told["inputs"]) == ("photo.index", 1, 0)
    assert 100 < told["left"] <= 120
    assert told["id"] != index(42)["id"]
    assert "indexing 42" in caplog.messages


def test_a_call_inside_a_job_gets_the_context_of_that_job() -> None:
    with inline():
        assert index_album.enqueue().get() is True
    assert index_album() is False


def test_jobs_from_its_context_go_where_those_of_tasks_go() -> None:
    with recording() as jobs:
        assert mail(7) == "mailed 7"
    assert jobs.only("mail.send")["argument"] == {"photo": 7}


def test_a_challenge_of_a_direct_call_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no answer can reach it: enqueue the task"):
        approve(1)


def test_a_value_that_only_a_worker_has_must_be_given() -> None:
    with pytest.raises(TypeError, match="a direct call must give size, connection, because only a worker"):
        import_photo("a")
    assert import_photo("a", 1, connection=2) == ("a", 1, 2)
    with pytest.raises(TypeError, match="must give connection, because only"):
        import_photo("a", size=1)


def test_an_annotation_that_cannot_be_resolved_does_not_matter() -> None:
    @Tasks().task("photo.price")
    def price(photo_id: int, least: "Price | None" = None) -> int:
        return photo_id

    assert price(3) == 3
