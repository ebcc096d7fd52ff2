"""Webhook calls whose receivers do not answer as they should."""

import time
from email.utils import formatdate

import pytest

from jqmaster.domain.notices.delivery import DeliveryOutcome
from jqmaster.net.egress import EgressGuard
from jqmaster.net.webhook_secret import secret_bytes
from jqmaster.runtime.outbound.webhook_client import (
    MAX_RETRY_AFTER_S,
    WebhookCall,
    WebhookClient,
    retry_after_s,
)
from tests.support.egress import loopback_guard
from tests.support.ports import free_port
from tests.support.webhook_receiver import SECRET, Answer, receiver

pytestmark = pytest.mark.req("M10")

KEYS = [secret_bytes(SECRET)]


async def outcome(url: str, guard: EgressGuard | None = None, *, timeout_s: float = 5.0) -> tuple[str, str]:
    client = WebhookClient(guard or loopback_guard(), KEYS, timeout_s=timeout_s)
    try:
        end = await client.call(WebhookCall(url, "019aa486-2c1f-8d7a-9b32-5f0c8e6d4b1a", b"{}"))
        return str(end.outcome), end.detail
    finally:
        await client.stop()


async def test_a_receiver_that_hangs_is_left_after_the_time() -> None:
    async with receiver(Answer(hangs=True)) as to:
        assert await outcome(to.url, timeout_s=0.1) == ("failed", "no answer (timed out)")


async def test_nobody_there_is_a_failure() -> None:
    end, detail = await outcome(f"http://127.0.0.1:{free_port()}/")
    assert (end, detail) == ("failed", "cannot connect (connection refused)")


async def test_a_name_that_nobody_has_may_be_there_later() -> None:
    end, detail = await outcome("http://receiver.invalid/")
    assert (end, detail) == (DeliveryOutcome.FAILED, "the name cannot be resolved")


async def test_private_addresses_are_refused_unless_they_are_allowed() -> None:
    public = EgressGuard([], allows_public=True)
    async with receiver() as to:
        end, detail = await outcome(to.url, public)
        assert (end, detail) == ("refused", "not called: the address is outside of the allowed networks")
        assert to.received == []
        assert (await outcome(to.url, EgressGuard(["127.0.0.0/8"], allows_public=True)))[0] == "delivered"


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "100.64.0.1", "[fd00::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]"]
)
async def test_only_public_addresses_pass_the_guard(address: str) -> None:
    public = EgressGuard([], allows_public=True)
    assert (await outcome(f"http://{address}/", public))[0] == "refused"
    target = public.parse("https://93.184.215.14/")
    assert (await public.resolve(target)).address == "93.184.215.14"


def test_retry_after_has_seconds_or_a_date() -> None:
    assert retry_after_s("120") == 120
    assert retry_after_s("999999999") == MAX_RETRY_AFTER_S
    assert retry_after_s(formatdate(time.time() + 60, usegmt=True)) == pytest.approx(60, abs=2)
    assert retry_after_s(formatdate(time.time() - 60, usegmt=True)) == 0
    assert retry_after_s("soon") is None
    assert retry_after_s(None) is None
