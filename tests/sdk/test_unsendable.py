"""Values that MessagePack cannot encode: their location and possible replacements."""

import asyncio
import dataclasses
import enum
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Event, InvalidArgument, Pusher, SyncPusher, Tasks, Worker, make_job
from worker_sdk.celery_compat import shared_task
from worker_sdk.outbox.rows import body_of
from worker_sdk.testing import recording

pytestmark = real_time.WORKER


@dataclasses.dataclass
class Photo:
    width: int


class Size(enum.Enum):
    SMALL = 1


KNOT: list[Any] = []
KNOT.append(KNOT)


@pytest.mark.parametrize(
    ("argument", "kind", "message"),
    [
        (UUID(int=1), TypeError, r"argument is a UUID, which has no MessagePack form: give str\(value\)"),
        ({"a": [1, {"b c": UUID(int=1)}]}, TypeError, r"argument\['a'\]\[1\]\['b c'\] is a UUID, .* str\(value\)"),
        ({UUID(int=1): 1}, TypeError, "a key of argument is a UUID"),
        ([Decimal("1.5")], TypeError, r"argument\[0\] is a Decimal, .* str\(value\), or float"),
        (date(2026, 1, 1), TypeError, r"argument is a date, .*value.isoformat\(\)"),
        (timedelta(1), TypeError, r"value.total_seconds\(\)"),
        ({"tags": {"a"}}, TypeError, r"argument\['tags'\] is a set, .* a list"),
        (Photo(1), TypeError, r"is a Photo, .*dataclasses.asdict"),
        (Size.SMALL, TypeError, r"is a Size, .*value.value"),
        (object(), TypeError, "is an object, .* None, bool, int"),
        (2**64, OverflowError, "argument is an integer beyond 64 bits"),
        (["\ud800"], ValueError, r"argument\[0\] is a str that has no UTF-8 form"),
        ({"at": datetime(2026, 1, 1)}, ValueError, r"argument\['at'\] is a datetime without a time zone"),
        ({1: 2}, TypeError, r"a key of argument is an int, and only str can be a key: give str\(key\)"),
        ({"a": [{}, {"b": {b"k": 1}}]}, TypeError, r"argument\['a'\]\[1\]\['b'\] is a bytes, .* key.decode\(\)"),
        ([Counter([None])], TypeError, r"a key of argument\[0\] is a NoneType"),
        (({"deep": ({(1, 2): 0},)},), TypeError, r"a key of argument\[0\]\['deep'\]\[0\] is a tuple"),
        (KNOT, ValueError, "nested more than 512 deep, or contains itself"),
    ],
)  # fmt: skip
def test_the_error_names_the_path_of_a_value_without_a_wire_form(
    master: FakeMaster, argument: Any, kind: type[Exception], message: str
) -> None:
    with SyncPusher(master.url, token=master.token) as pusher:
        with pytest.raises(kind, match=message):
            pusher.enqueue("x", argument)
        with pytest.raises(kind, match=message):
            pusher.enqueue_many([("x", 1), ("x", argument)])
        pusher.enqueue("x", {"all": "right"})
    with pytest.raises(kind, match=message):
        asyncio.run(Pusher(master.url, token=master.token).enqueue("x", argument))
    assert len(master.jobs) == 1


class Name(str):
    """A text of another class, as frameworks have them."""

    __slots__ = ()


def test_a_key_of_a_class_of_texts_is_sent(master: FakeMaster) -> None:
    with SyncPusher(master.url, token=master.token) as pusher:
        pusher.enqueue("x", OrderedDict([(Name("a"), [defaultdict(int, b=1)])]))
    (job,) = master.jobs.values()
    assert job["argument"] == {"a": [{"b": 1}]}


KEYED: dict[Any, Any] = {"deep": [{1: 2}]}


@pytest.mark.parametrize(
    ("send", "place"),
    [
        (lambda pusher: pusher.enqueue("x", 0, headers={1: "a"}), "a key of headers is an int"),
        (lambda pusher: pusher.send_event("paid", KEYED), r"a key of payload\['deep'\]\[0\] is an int"),
        (
            lambda pusher: pusher.send_events([Event("paid"), Event("paid", KEYED)]),
            r"a key of events\[1\]\['payload'\]\['deep'\]\[0\] is an int",
        ),
        (
            lambda pusher: pusher.create_batch({"id": "b", "on_success": {"name": "x", "argument": KEYED}}),
            r"a key of on_success\['argument'\]\['deep'\]\[0\] is an int",
        ),
    ],
    ids=["option", "event", "events", "batch"],
)
async def test_whatever_is_sent_names_a_key_that_is_not_text(
    master: FakeMaster, send: Callable[[Any], Any], place: str
) -> None:
    with SyncPusher(master.url, token=master.token) as pusher, pytest.raises(TypeError, match=place):
        await asyncio.to_thread(send, pusher)
    async with Pusher(master.url, token=master.token) as apusher:
        with pytest.raises(TypeError, match=place):
            await send(apusher)
    assert master.calls == []


def test_a_task_without_annotations_names_the_parameter(master: FakeMaster) -> None:
    tasks = Tasks(master=master.url, token=master.token)

    @tasks.every(minutes=5, arguments={"value": KEYED})
    @tasks.task("plain")
    def plain(value, *, more=None):  # type: ignore[no-untyped-def]
        pass

    for refused in (
        lambda: plain.enqueue(KEYED),
        lambda: plain.many([{"value": 1, "more": KEYED}]),
        tasks.definitions,
    ):
        with pytest.raises(InvalidArgument, match=r"(value|more)\['deep'\]\[0\]"):
            refused()
    assert master.calls == []


def test_an_option_is_named_too(master: FakeMaster) -> None:
    with (
        SyncPusher(master.url, token=master.token) as pusher,
        pytest.raises(TypeError, match=r"headers\['trace'\] is a UUID"),
    ):
        pusher.enqueue("x", headers={"trace": UUID(int=1)})  # type: ignore[dict-item]


def test_outboxes_tests_and_celery_tasks_name_a_key_that_is_not_text(master: FakeMaster) -> None:
    with pytest.raises(TypeError, match=r"a key of argument\['deep'\]\[0\] is an int"):
        body_of(make_job("x", KEYED), None)
    with recording() as jobs, pytest.raises(InvalidArgument, match=r"value\['deep'\]\[0\]"):
        of_celery.delay(KEYED)
    assert (list(jobs), master.calls) == ([], [])


@shared_task
def of_celery(value):  # type: ignore[no-untyped-def]
    pass


async def test_a_result_is_named_by_its_path(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("odd")
    async def odd(argument: Any) -> Any:
        return {"photo": [UUID(int=1)]}

    await up()
    job = await master.run("odd")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["message"] == (
        "the result cannot be sent: TypeError: result['photo'][0] is a UUID, "
        "which has no MessagePack form: give str(value)"
    )


async def test_a_key_of_a_result_that_is_not_text_is_named_by_its_path(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("odd")
    async def odd(argument: Any) -> Any:
        return KEYED

    await up()
    job = await master.run("odd")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["message"] == (
        "the result cannot be sent: TypeError: a key of result['deep'][0] is an int, "
        "and only str can be a key: give str(key)"
    )
