"""The HTTP endpoint under test: the requests that masters would send to it, and its answers."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from jqmaster.conformance.questions import FailedError, SkippedError, expect
from jqmaster.conformance.raw_http import Connection, RawMessage, RawReply, Server, call
from jqmaster.conformance.wire import JSON, media_type, new_id

# The time after which a master closes a delivery by default.
TIMEOUT_S: Final = 30.0
_MAX_RESULT_BYTES: Final = 1024 * 1024
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105  the beginning of any secret
_ASKS_FOR_TIME: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class TargetJob:
    """A job in the form that a target gets. A repeated attempt has the same ID and a higher fence."""

    id: str = field(default_factory=new_id)
    attempt: int = 1
    fence: int = field(default_factory=time.time_ns)

    def again(self) -> "TargetJob":
        return TargetJob(self.id, self.attempt + 1)


class TargetUnderTest:
    """The endpoint to ask.

    * `argument`: an argument for which the endpoint answers with success.
    * `secret`: signs requests. None: they are not signed.
    * `has_envelope`: whether requests have the facts of the job around the argument.
    """

    def __init__(
        self, url: str, *, name: str, argument: Any, secret: str | None, has_envelope: bool, method: str
    ) -> None:
        self.url = url
        self.secret = secret
        self._name = name
        self._argument = argument
        self._has_envelope = has_envelope
        self._method = method
        self.callback_url = ""
        self.callbacks: dict[str, RawMessage] = {}
        # The faults in the target's answers, each once.
        self.faults: list[str] = []
        self._server = Server(self._called_back)

    async def start(self, host: str) -> None:
        """Listen for callbacks."""
        port = await self._server.start(host, 0)
        self.callback_url = f"http://{f'[{host}]' if ':' in host else host}:{port}/callbacks/"

    async def stop(self) -> None:
        await self._server.stop()

    async def _called_back(self, message: RawMessage) -> RawReply:
        self.callbacks[message.first[1].rpartition("/")[2]] = message
        return RawReply(202, b'{"repeated": false}', JSON)

    # --- requests

    def body(self, job: TargetJob, **more: Any) -> bytes:
        """Return the body for a job. `more`: additional members that no present version sends."""
        if not self._has_envelope:
            return json.dumps(self._argument).encode()
        return json.dumps(
            {
                "id": job.id,
                "name": self._name,
                "attempt": job.attempt,
                "created_at": _iso(time.time()),
                "argument": self._argument,
                **more,
            }
        ).encode()

    def fields(
        self, job: TargetJob, body: bytes, *, secret: str | None = None, at_s: float | None = None
    ) -> dict[str, str]:
        """Return the fields of a request.
        * `secret`: a different secret for the signature.
        * `at_s`: a different time for the signature.
        """
        found = {
            "Content-Type": JSON,
            "Accept": JSON,
            "User-Agent": "jqmaster",
            "JQ-Job-Id": job.id,
            "JQ-Job-Name": self._name,
            "JQ-Attempt": str(job.attempt),
            "JQ-Fence": str(job.fence),
            "JQ-Deadline": _iso(time.time() + TIMEOUT_S),
            "JQ-Callback-Url": self.callback_url + job.id,
            "Idempotency-Key": job.id,
        }
        signing = secret or self.secret
        if signing is not None:
            found |= _signed(signing, job.id, int(time.time() if at_s is None else at_s), body)
        return found

    async def deliver(self, job: TargetJob | None = None, **changed: Any) -> RawMessage:
        """Send a job as a master does. `changed`: see `send`."""
        job = job or TargetJob()
        body = changed.pop("body", None) or self.body(job)
        fields = self.fields(job, body)
        return await self.send(body, fields | changed.pop("fields", {}))

    async def send(self, body: bytes, fields: Mapping[str, str]) -> RawMessage:
        """Send a request of any kind, and return the answer."""
        answer = await call(self._method, self.url, fields=fields, body=body, timeout_s=TIMEOUT_S)
        self._look(answer)
        return answer

    async def connect(self) -> tuple[Connection, str]:
        """Return a connection, and the target of its request lines."""
        parts = urlsplit(self.url)
        return await Connection.open(self.url), (parts.path or "/") + (
            f"?{parts.query}" if parts.query else ""
        )

    def head(self, connection: Connection, path: str, fields: Mapping[str, str], body: bytes) -> bytes:
        return connection.head(self._method, path, fields, len(body))

    # --- answers

    def expect_done(self, answer: RawMessage) -> None:
        """Fail if the answer says neither that the job is done nor that a callback will report it."""
        if answer.status in _ASKS_FOR_TIME:
            raise SkippedError(f"it is busy: it answered {answer.status}")
        expect(200 <= answer.status < 300, f"answered {answer.status}: {_quoted(answer)}")

    def expect_refused(self, answer: RawMessage) -> None:
        """Fail if the answer does not refuse the request with a status of 4xx other than 429."""
        expect(
            400 <= answer.status < 500 and answer.status != 429,
            f"answered {answer.status}: {_quoted(answer)}",
        )

    def need_secret(self) -> str:
        if self.secret is None:
            raise SkippedError("the kit was given no secret, so nothing is signed")
        return self.secret

    def _look(self, answer: RawMessage) -> None:
        """Note the rules for answers that this answer breaks."""
        faults = []
        if answer.status in _ASKS_FOR_TIME and "retry-after" in answer.fields:
            after = answer.fields["retry-after"]
            if not after.isdigit() and "gmt" not in after.lower():
                faults.append(f"Retry-After: {after[:50]} is neither seconds nor a date")
        if 300 <= answer.status < 400:
            faults.append(f"it answered {answer.status}: redirects are not followed")
        if 200 <= answer.status < 300 and answer.body:
            if len(answer.body) > _MAX_RESULT_BYTES:
                faults.append(f"an answer has {len(answer.body)} bytes; results end at {_MAX_RESULT_BYTES}")
            if media_type(answer.fields) == JSON:
                try:
                    json.loads(answer.body)
                except ValueError:
                    faults.append("an answer of type application/json is not JSON")
        self.faults += [fault for fault in faults if fault not in self.faults]


def awaited_s(answer: RawMessage) -> float | None:
    """Return the announced time for a callback in seconds. None: the answer announces no callback. Raises
    FailedError."""
    text = answer.fields.get("jq-await")
    if answer.status != 202 or text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        raise FailedError(f"JQ-Await: {text[:50]} is not a number of seconds") from None
    expect(seconds > 0, f"JQ-Await: {text[:50]} is not above 0")
    return seconds


def other_secret() -> str:
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def _signed(secret: str, message_id: str, at_s: int, body: bytes) -> dict[str, str]:
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": signature_of(secret, message_id, at_s, body),
    }


def signature_of(secret: str, message_id: str, at_s: int, body: bytes) -> str:
    """Return the signature of a message by Standard Webhooks. Raises ValueError."""
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("the secret must be whsec_ and base64") from None
    digest = hmac.new(key, f"{message_id}.{at_s}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def _iso(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_s)) + f".{int(at_s * 1000) % 1000:03d}Z"


def _quoted(answer: RawMessage) -> str:
    return answer.body[:200].decode(errors="replace")
