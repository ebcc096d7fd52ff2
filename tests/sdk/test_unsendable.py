"""Values that MessagePack cannot encode: their location and possible replacements."""

import asyncio
import dataclasses
import enum
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Pusher, SyncPusher, Worker

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
        (object(), TypeError, "is a object, .* None, bool, int"),
        (2**64, OverflowError, "argument is an integer beyond 64 bits"),
        (["\ud800"], ValueError, r"argument\[0\] is a str that has no UTF-8 form"),
        ({"at": datetime(2026, 1, 1)}, ValueError, r"argument\['at'\] is a datetime without a time zone"),
        (KNOT, ValueError, "nested more than 512 deep, or holds itself"),
    ],
)  # fmt: skip
def test_what_has_no_form_is_named_by_its_path(
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


def test_an_option_is_named_too(master: FakeMaster) -> None:
    with (
        SyncPusher(master.url, token=master.token) as pusher,
        pytest.raises(TypeError, match=r"headers\['trace'\] is a UUID"),
    ):
        pusher.enqueue("x", headers={"trace": UUID(int=1)})  # type: ignore[dict-item]


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
