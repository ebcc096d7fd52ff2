"""The facts that registrations reveal to callers, and how often callers may be wrong."""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable
from typing import Any

import pytest

from jqmaster.errors import AddressRefusedError, RateLimitedError
from jqmaster.live_value import LiveValue
from jqmaster.service.workers import registrations as module
from jqmaster.service.workers.registrations import Registrations
from tests.support import real_time
from tests.support.clock import ManualClock

pytestmark = real_time.LOOPS

SECRET = "s" * 32
URL = "http://10.0.0.7:9000"


def right_proof(nonce: str) -> str:
    return hmac.new(SECRET.encode(), nonce.encode(), hashlib.sha256).hexdigest()


class Prover:
    """Returns the proof that the test sets."""

    def __init__(self) -> None:
        self.give: Callable[[str], Any] = right_proof
        self.hold: asyncio.Event | None = None

    async def prove(self, url: str, nonce: str) -> Any:
        if self.hold:
            await self.hold.wait()
        return self.give(nonce)


def fail(text: str) -> Callable[[str], Any]:
    def raise_it(nonce: str) -> Any:
        raise AddressRefusedError(text, code="address_unresolved")

    return raise_it


@pytest.fixture
def prover() -> Prover:
    return Prover()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def registrations(prover: Prover, clock: ManualClock) -> Registrations:
    return Registrations(prover, clock, failures_per_minute=LiveValue(3))


async def refusal(registrations: Registrations, caller: str = "caller") -> tuple[str, str]:
    with pytest.raises(AddressRefusedError) as refused:
        await registrations.check(URL, SECRET, caller)
    return refused.value.code, refused.value.detail


async def test_a_refusal_tells_nothing_about_who_answers_there(
    registrations: Registrations, prover: Prover, caplog: pytest.LogCaptureFixture
) -> None:
    causes: list[Callable[[str], Any]] = [
        fail("connection refused"), fail("the name cannot be resolved"), lambda nonce: None, lambda nonce: "0" * 64,
        lambda nonce: b"0" * 64, lambda nonce: 7, lambda nonce: "é",
    ]  # fmt: skip
    answers = set()
    for n, give in enumerate(causes):
        prover.give = give
        answers.add(await refusal(registrations, f"caller {n}"))
    assert len(answers) == 1
    assert answers.pop()[0] == "address_unverified"
    assert {"connection refused", "the name cannot be resolved"} <= {
        record.getMessage().rpartition(": ")[2] for record in caplog.records
    }


async def test_a_worker_that_proves_the_secret_learns_the_fault_of_the_proof(
    registrations: Registrations, prover: Prover
) -> None:
    prover.give = lambda nonce: right_proof(nonce).encode()
    code, detail = await refusal(registrations)
    assert code == "address_unverified"
    assert "must be text" in detail


async def test_a_caller_that_is_wrong_too_often_is_refused_and_others_are_not(
    registrations: Registrations, prover: Prover, clock: ManualClock
) -> None:
    await registrations.check(URL, SECRET, "caller")
    prover.give = fail("nobody listens there")
    for _ in range(3):
        await refusal(registrations)
    with pytest.raises(RateLimitedError) as limited:
        await registrations.check(URL, SECRET, "caller")
    assert limited.value.retry_after_s == 60
    await refusal(registrations, "another")
    prover.give = right_proof
    clock.jump(60)
    for _ in range(10):
        await registrations.check(URL, SECRET, "caller")


async def test_a_caller_has_only_so_many_addresses_tried_at_once(
    registrations: Registrations, prover: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_AT_ONCE", 2)
    prover.hold = asyncio.Event()
    first = [asyncio.create_task(registrations.check(URL, SECRET, "caller")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(RateLimitedError):
        await registrations.check(URL, SECRET, "caller")
    prover.hold.set()
    await asyncio.gather(*first, registrations.check(URL, SECRET, "another"))
    await registrations.check(URL, SECRET, "caller")
    assert not registrations._under_way


def test_an_address_that_registers_again_and_again_is_told_of_once_a_minute(
    registrations: Registrations, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]

    for _ in range(5):
        registrations.note(URL)
        registrations.note("http://10.0.0.8:9000")
    assert told() == []
    for _ in range(100):
        registrations.note(URL)
    assert len(told()) == 1
    assert URL in told()[0]
    clock.jump(60)
    for _ in range(100):
        registrations.note(URL)
    assert len(told()) == 2
