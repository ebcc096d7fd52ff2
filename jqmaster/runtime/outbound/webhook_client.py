"""Call webhooks. Calls return the outcome and do not raise, because a receiver that misbehaves is an everyday
outcome."""

import functools
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

from jqmaster.domain.notices.delivery import DeliveryOutcome
from jqmaster.domain.notices.webhook import origin_of, path_of, signature
from jqmaster.errors import AddressRefusedError
from jqmaster.net.egress import EgressGuard, GuardedRoute
from worker_sdk.transport.http_client import HttpClient, NoAnswerError, NotSentError, field_lines

CALL_TIMEOUT_S: Final = 15.0
CONNECT_TIMEOUT_S: Final = 5.0
# Maximum size of an answer's body. The body is not used, but an answer with a longer one counts as no answer.
MAX_ANSWER_BYTES: Final = 1024 * 1024
MAX_RETRY_AFTER_S: Final = 24 * 3600.0
_GONE: Final = 410
_ASKS_FOR_TIME: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """One call of a webhook.

    * `message_id`: the same in each repeat.
    * `keys`: the keys that sign the call. Empty: the keys of the settings sign it.
    * `is_signed`: False for a receiver that does not support signatures.
    """

    url: str = field(repr=False)
    message_id: str
    body: bytes
    keys: Sequence[bytes] = field(default=(), repr=False)
    is_signed: bool = True


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call. `detail` is for people."""

    outcome: DeliveryOutcome
    detail: str
    retry_after_s: float | None = None


class WebhookClient:
    """Component: calls webhooks. It connects only where `guard` lets it, follows no redirects, and signs with each of
    `keys`."""

    def __init__(
        self, guard: EgressGuard, keys: Sequence[bytes], *, timeout_s: float = CALL_TIMEOUT_S
    ) -> None:
        self._keys = keys
        self._timeout_s = timeout_s
        self._http = HttpClient(
            GuardedRoute(guard, _system_context),
            max_answer_bytes=MAX_ANSWER_BYTES,
            # Do not keep connections: there are many receivers, and each is called rarely.
            keeps_connections=False,
            is_end_an_answer=True,
        )

    async def start(self) -> None:
        """Do nothing: nothing runs before the first call."""

    async def stop(self) -> None:
        await self._http.close()

    @property
    def can_sign(self) -> bool:
        """Return whether there is a secret. Without a secret, nothing is delivered."""
        return bool(self._keys)

    async def call(self, call: WebhookCall) -> CallEnd:
        """Call a webhook once."""
        fields = {"User-Agent": "jqmaster", "Content-Type": "application/json", "Accept-Encoding": "identity"}
        if call.is_signed:
            # Use the wall clock: receivers compare this time with their own clocks.
            timestamp_s = int(time.time())
            fields |= {
                "webhook-id": call.message_id,
                "webhook-timestamp": str(timestamp_s),
                "webhook-signature": signature(
                    call.keys or self._keys, call.message_id, timestamp_s, call.body
                ),
            }
        try:
            answer = await self._http.call(
                "POST",
                origin_of(call.url),
                path_of(call.url),
                call.body,
                field_lines(fields),
                timeout_s=self._timeout_s,
                connect_timeout_s=CONNECT_TIMEOUT_S,
            )
        except AddressRefusedError as exc:
            if exc.code == "address_unresolved":
                return CallEnd(DeliveryOutcome.FAILED, exc.detail)
            return CallEnd(DeliveryOutcome.REFUSED, f"not called: {exc.detail}")
        except (NotSentError, ssl.SSLError) as exc:
            return CallEnd(DeliveryOutcome.FAILED, f"cannot connect ({exc})")
        except NoAnswerError as exc:
            return CallEnd(DeliveryOutcome.FAILED, f"no answer ({exc})")
        return _judged(answer.status, answer.retry_after)


def _judged(status: int, retry_after: str | None) -> CallEnd:
    if 200 <= status < 300:
        return CallEnd(DeliveryOutcome.DELIVERED, f"status {status}")
    if status == _GONE:
        return CallEnd(DeliveryOutcome.GONE, "status 410: the receiver wants no more of these")
    if 300 <= status < 400:
        return CallEnd(DeliveryOutcome.FAILED, f"status {status}: redirects are not followed")
    wait_s = retry_after_s(retry_after) if status in _ASKS_FOR_TIME else None
    return CallEnd(DeliveryOutcome.FAILED, f"status {status}", wait_s)


def retry_after_s(text: str | None) -> float | None:
    """Return the seconds of a Retry-After field, which contains seconds or a date. None: the field has another form."""
    if text is None:
        return None
    if text.strip().isdecimal():
        seconds = float(text)
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):  # no clock here can represent this time
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


@functools.cache
def _system_context() -> ssl.SSLContext:
    return ssl.create_default_context()
