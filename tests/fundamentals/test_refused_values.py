"""Values that only a master refuses: the error names their place."""

from typing import Any

import pytest

from worker_sdk import Pusher, RefusedError

DEEP: Any = 1
for _ in range(40):
    DEEP = {"in": [DEEP]}


@pytest.mark.req("S3")
@pytest.mark.parametrize(
    ("argument", "code", "place"),
    [
        ({"deep": DEEP}, "too_deep", "argument['deep']['in'][0]"),
        ({"few": [1], "many": list(range(300_000))}, "too_many_nodes", "argument['many'] alone holds 300000"),
    ],
)
async def test_the_place_of_a_refused_value_is_named(
    pusher: Pusher, argument: Any, code: str, place: str
) -> None:
    with pytest.raises(RefusedError) as one:
        await pusher.enqueue("x", argument)
    assert one.value.code == code
    assert place in str(one.value)
    with pytest.raises(RefusedError) as many:
        await pusher.enqueue_many([("x", 1), ("x", argument)])
    assert f"jobs[1]['argument']{place.removeprefix('argument')}" in str(many.value)
