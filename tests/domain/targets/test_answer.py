"""The meaning of each answer for its job."""

from dataclasses import replace

import pytest

from jqmaster.domain.targets.answer import DeliveryEnd, DeliveryResult, judged, read_await_s
from jqmaster.domain.targets.target import HttpTarget
from tests.support.each import for_each

pytestmark = pytest.mark.req("M13")

SHOP = HttpTarget("shop", ("shop",), url="https://shop.example/")


def judge(status: int, **fields: object) -> DeliveryEnd:
    return judged(SHOP, status, **fields)  # type: ignore[arg-type]


@for_each(
    "status, result",
    [
        (200, "succeeded"), (204, "succeeded"), (202, "succeeded"), (301, "failed"), (400, "rejected"), (401, "failed"),
        (410, "rejected"), (429, "not_ready"), (500, "failed"), (503, "not_ready"), (599, "failed"),
    ],
)  # fmt: skip
def test_each_status_has_a_meaning(status: int, result: str) -> None:
    assert judge(status).result == result


def test_the_texts_say_what_the_target_answered() -> None:
    assert judge(503, retry_after_s=20.0).detail == "the target answered 503 and asks to wait 20 s"
    assert judge(503, retry_after_s=20.0).wait_s == 20
    assert judge(429).detail == "the target answered 429 and asks for time"
    assert "redirects are not followed" in judge(302).detail
    assert judge(422).code == "status_422"


def test_202_with_jq_await_waits_for_a_callback() -> None:
    end = judge(202, await_text="3600")
    assert (end.result, end.await_s) == (DeliveryResult.AWAITING, 3600)
    bad = judge(202, await_text="soon")
    assert (bad.result, bad.code) == (DeliveryResult.REJECTED, "bad_await")
    assert judge(200, await_text="3600").result is DeliveryResult.SUCCEEDED


def test_a_listed_status_wins() -> None:
    assert judged(replace(SHOP, final=(503,)), 503).result is DeliveryResult.REJECTED
    assert judged(replace(SHOP, ok=(200, 404), final=()), 404).result is DeliveryResult.SUCCEEDED


@for_each(
    "text, seconds",
    [("1.5", 1.5), (" 60 ", 60), ("0", None), ("-1", None), ("nan", None), ("1e99", None), ("", None)],
)
def test_the_seconds_of_jq_await(text: str, seconds: float | None) -> None:
    assert read_await_s(text) == seconds
