"""The answer of an endpoint of Fireworq, and its meaning for the job."""

from dataclasses import dataclass
from typing import Final

import msgspec

SUCCESS: Final = "success"
FAILURE: Final = "failure"
PERMANENT_FAILURE: Final = "permanent-failure"
# The request got no answer at all.
INTERNAL_FAILURE: Final = "internal-failure"
_KNOWN: Final = frozenset({SUCCESS, FAILURE, PERMANENT_FAILURE})
# Maximum length of a message. Longer messages are cut on arrival, because figures and failed attempts keep messages,
# and an answer may have 16 MB.
MAX_MESSAGE: Final = 1_000


class _EndpointAnswer(msgspec.Struct, gc=False):
    status: str = ""
    message: str = ""


_decoder: Final = msgspec.json.Decoder(_EndpointAnswer)


@dataclass(frozen=True, slots=True)
class EndpointVerdict:
    """The meaning of an answer. `status`: one of the constants above. As in Fireworq, it does not depend on the HTTP
    status."""

    status: str
    message: str

    def code(self, http_status: int) -> str:
        """Return the code under which a failed attempt keeps this verdict; empty for a success."""
        return "" if self.status == SUCCESS else f"{self.status}_{http_status}"


def payload_of(argument: object) -> bytes:
    """Return the body of the request for a job; empty if its argument has no payload."""
    payload = argument.get("payload") if isinstance(argument, dict) else None
    return payload.encode() if isinstance(payload, str) else b""


def kept_verdict(code: str, message: str) -> tuple[EndpointVerdict, int]:
    """Return the verdict and the HTTP status that a failed attempt recorded. Any other code means that there was no
    answer."""
    status, _, digits = code.partition("_")
    if status in _KNOWN and digits.isdigit():
        return EndpointVerdict(status, message), int(digits)
    return EndpointVerdict(INTERNAL_FAILURE, message), 0


def verdict_of(body: bytes) -> EndpointVerdict:
    """Return the meaning of the body of an answer. If the body has no known status in the form `{"status": …}`, the
    meaning is a failure that may be retried."""
    try:
        answer = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as exc:
        return _failure(f"the answer is not the JSON that was expected ({exc})", body)
    if answer.status not in _KNOWN:
        known = ", ".join(sorted(_KNOWN))
        return _failure(f"the status of the answer must be one of {known}", body)
    return EndpointVerdict(answer.status, answer.message[:MAX_MESSAGE])


def _failure(why: str, body: bytes) -> EndpointVerdict:
    quoted = body[:MAX_MESSAGE].decode(errors="replace")
    return EndpointVerdict(FAILURE, f"{why}: {quoted}"[:MAX_MESSAGE])
