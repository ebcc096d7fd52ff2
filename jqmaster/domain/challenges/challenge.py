"""Challenges: work that an attempt has handed over to another system, which answers with a callback."""

import base64
import hashlib
import hmac
import secrets
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from jqmaster.domain.challenges.challenge_form import Audience, Form, GivenAnswer
from jqmaster.domain.histogram import Histogram

# The number of bytes in the secret part of a request ID. Views show only the first 8 characters of this part. They
# are 48 of its 192 bits.
SECRET_BYTES: Final = 24
SHOWN_CHARS: Final = 8
# The length of a stored digest. Half a digest is enough to tell two IDs apart, and saves space for each open challenge.
DIGEST_BYTES: Final = 16
_JOB_CHARS: Final = 22
_SECRET_CHARS: Final = 32

# The minimum length of a worker's nonce. It is base64 and has as many random bits as the secret part of a request ID.
MIN_NONCE_CHARS: Final = 32
MAX_NONCE_CHARS: Final = 64
MAX_EXPECT: Final = 1_000
MAX_META_BYTES: Final = 4_096
MAX_WAIT_S: Final = 366 * 86_400
MAX_CODE_CHARS: Final = 64


class ChallengeState(StrEnum):
    """The state of a challenge. `expired`: too few callbacks came in time. `void`: the attempt ended for another reason
    before the callbacks came."""

    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    VOID = "void"


# Never change a code: the store contains these numbers.
CHALLENGE_CODES: Final = {
    ChallengeState.PROCESSING: 0,
    ChallengeState.SUCCEEDED: 1,
    ChallengeState.FAILED: 2,
    ChallengeState.EXPIRED: 3,
    ChallengeState.VOID: 4,
}


class RequestId(NamedTuple):
    """The parts of a request ID. Only its owner knows the whole ID. The store keeps `digest`, and people see
    `shown`."""

    text: str
    job_id: str
    shown: str
    digest: bytes


def new_request_id(job_id: str, token: str = "", nonce: str = "") -> RequestId:
    """Return a request ID that nobody can guess. It begins with the ID of its job, by which the challenge is found.

    With a `nonce`, the same job, token and nonce always give the same request ID. The nonce must be impossible to
    guess.
    """
    job = base64.urlsafe_b64encode(uuid.UUID(job_id).bytes).rstrip(b"=").decode()
    secret = (
        hashlib.sha256(f"{token}\n{nonce}".encode()).digest()[:SECRET_BYTES]
        if nonce
        else secrets.token_bytes(SECRET_BYTES)
    )
    return _split(job + base64.urlsafe_b64encode(secret).decode(), job_id)


def read_request_id(text: str) -> RequestId | None:
    """Return the parts of a request ID, or None if the text is not a request ID."""
    if len(text) != _JOB_CHARS + _SECRET_CHARS or not text.isascii():
        return None
    try:
        job_id = str(
            uuid.UUID(bytes=base64.b64decode(text[:_JOB_CHARS] + "==", altchars=b"-_", validate=True))
        )
    except ValueError:
        return None
    return _split(text, job_id)


def _split(text: str, job_id: str) -> RequestId:
    digest = hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]
    return RequestId(text, job_id, text[_JOB_CHARS : _JOB_CHARS + SHOWN_CHARS], digest)


@dataclass(frozen=True, slots=True)
class CallbackSignature:
    """The way in which the outside system signs its callbacks. The signature is the HMAC-SHA256 of the body. It follows
    a prefix in a header."""

    header: str
    secret: str
    prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"

    def is_valid(self, value: str, body: bytes) -> bool:
        """Return whether a header's value is the signature of a body."""
        if not value.startswith(self.prefix):
            return False
        mac = hmac.digest(self.secret.encode(), body, "sha256")
        expected = mac.hex() if self.encoding == "hex" else base64.b64encode(mac).decode()
        given = value[len(self.prefix) :].strip()
        return hmac.compare_digest(
            (given.lower() if self.encoding == "hex" else given).encode(), expected.encode()
        )


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback as received: any bytes, with the content type that the sender gave."""

    content_type: str
    body: bytes
    received_at_ms: int = 0

    @property
    def digest(self) -> bytes:
        """Return a digest that is equal only for repeats of this callback."""
        return hashlib.sha256(self.content_type.encode() + b"\n" + self.body).digest()[:DIGEST_BYTES]


def callback_fields(callbacks: Sequence[Callback]) -> dict[str, Any]:
    """Return the fields for the worker: the first callback and, if there are several, the list of all."""
    listed = [
        {"content_type": one.content_type, "body": one.body, "received_at_ms": one.received_at_ms}
        for one in callbacks
    ]
    return {"callback": listed[0] if listed else None} | ({"callbacks": listed} if len(listed) > 1 else {})


@dataclass(frozen=True, slots=True)
class Challenge:
    """A stored challenge. Times are in store milliseconds; 0: not set.

    * `shown`: the part of its request ID that views show.
    * `awaiting_since_ms`: when its attempt reported that the outside system has the work.
    * `run_at_ms`: when its callbacks were given to a worker. After the end of a challenge, the store keeps the number
      of its callbacks but not their bodies.

    With a `form`, people answer the challenge:

    * `answers`: their answers.
    * `link`: the whole request ID, until the challenge is over.
    * `remind_ms`: the time from `awaiting_since_ms` to the reminder. None: there is no reminder.
    """

    job_id: str
    shown: str
    attempt: int
    state: ChallengeState
    opened_at_ms: int
    wait_ms: int
    expect: int = 1
    awaiting_since_ms: int = 0
    due_at_ms: int = 0
    received: int = 0
    received_at_ms: int = 0
    run_at_ms: int = 0
    ended_at_ms: int = 0
    fraction: float | None = None
    note: str = ""
    told_at_ms: int = 0
    meta: bytes | None = None
    callbacks: Sequence[Callback] = ()
    digest: bytes = b""
    form: Form | None = None
    audience: Audience = Audience.LINK
    answers: Sequence[GivenAnswer] = ()
    link: str = field(default="", repr=False)
    remind_ms: int | None = None

    @property
    def remind_at_ms(self) -> int:
        """Return when people are reminded. 0: never, or the time is not known yet."""
        is_known = self.remind_ms is not None and self.awaiting_since_ms > 0
        return self.awaiting_since_ms + (self.remind_ms or 0) if is_known else 0

    @property
    def is_open(self) -> bool:
        """Return whether the challenge waits for a callback."""
        return self.state is ChallengeState.PROCESSING and self.received < self.expect


class CallbackAnswer(StrEnum):
    """The answer to a callback.

    * `repeated`: the same callback came before.
    * `conflict`: a different callback came before.
    * `over`: the attempt that waited for it is over.
    """

    TAKEN = "taken"
    REPEATED = "repeated"
    CONFLICT = "conflict"
    OVER = "over"
    UNKNOWN = "unknown"


class ChallengeFigures:
    """Counts of one process, for its metrics.

    * `opened` and `expired`: numbers of challenges.
    * `callbacks`: by answer.
    * `waits`: the times from the opening of challenges to their callbacks.
    """

    __slots__ = ("callbacks", "expired", "opened", "waits")

    def __init__(self) -> None:
        self.opened = 0
        self.expired = 0
        self.callbacks: Counter[CallbackAnswer] = Counter()
        self.waits = Histogram()

    def received(self, answer: CallbackAnswer, after_ms: int) -> None:
        """Count a callback that came `after_ms` after its challenge was opened."""
        self.callbacks[answer] += 1
        if answer is CallbackAnswer.TAKEN:
            self.waits.add(after_ms)
