"""Requests of Fireworq's API. Unknown fields are ignored, as in Fireworq."""

from typing import Annotated, Any, Final, TypeVar

import msgspec

from jqmaster.domain.fireworq.queue import MAX_CATEGORY, FireworqQueue, QueueTermsError
from jqmaster.domain.jobs.job_terms import MAX_DELAY_S, MAX_RETRY, RETRY_BASE_S, TIMEOUT_S
from jqmaster.domain.notices.webhook import url_fault
from jqmaster.errors import UnparsableError
from jqmaster.service.fireworq.pushes import FireworqPush

_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class QueueBody(msgspec.Struct, gc=False):
    """The settings of a queue. 0 stands for the default."""

    polling_interval: _Whole = 0
    max_workers: _Whole = 0
    max_dispatches_per_second: float | None = None
    max_burst_size: _Whole | None = None

    def to_queue(self, name: str) -> FireworqQueue:
        """Return the queue. Raise UnparsableError."""
        queue = FireworqQueue(
            name,
            self.polling_interval,
            self.max_workers,
            # Zero means no limit. Clients may send two zeros, although Fireworq itself omits both fields if there
            # is no limit.
            self.max_dispatches_per_second or None,
            self.max_burst_size or None,
        )
        try:
            queue.check()
        except QueueTermsError as exc:
            raise UnparsableError(str(exc)) from None
        return queue


class RoutingBody(msgspec.Struct, gc=False):
    queue_name: str = ""


class JobBody(msgspec.Struct, gc=False):
    """A job. `payload` stays the text that the client sent."""

    url: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    run_after: Annotated[int, msgspec.Meta(ge=0, le=MAX_DELAY_S)] = 0
    max_retries: Annotated[int, msgspec.Meta(ge=0, le=MAX_RETRY.most)] = 0
    retry_delay: Annotated[int, msgspec.Meta(ge=0, le=int(RETRY_BASE_S.most))] = 0
    timeout: Annotated[int, msgspec.Meta(ge=0, le=int(TIMEOUT_S.most))] = 0

    def to_push(self, category: str) -> FireworqPush:
        """Return the push. Raise UnparsableError."""
        if len(category) > MAX_CATEGORY:
            raise UnparsableError(f"the category is longer than {MAX_CATEGORY} characters")
        if not self.url:
            raise UnparsableError("url is missing")
        if fault := url_fault(self.url):
            raise UnparsableError(f"url {fault}")
        return FireworqPush(
            category, self.url, self._text(), self.run_after, self.max_retries, self.retry_delay, self.timeout
        )

    def _text(self) -> str:
        """Return the text to send to the URL: the content of a JSON string, an empty text for null, or the JSON
        text of any other value."""
        raw = bytes(self.payload)
        try:
            if raw.startswith(b'"'):
                return _TEXT.decode(raw)
            return "" if raw == b"null" else raw.decode()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise UnparsableError("the payload is not JSON in UTF-8") from None

    def document(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "payload": self.payload,
            "run_after": self.run_after,
            "timeout": self.timeout,
            "retry_delay": self.retry_delay,
            "max_retries": self.max_retries,
        }


_TEXT: Final = msgspec.json.Decoder(str)
BodyT = TypeVar("BodyT", bound=msgspec.Struct)


def parsed(body: bytes, model: type[BodyT]) -> BodyT:
    """Return a JSON body as `model`. Raise UnparsableError."""
    try:
        return msgspec.json.decode(body, type=model)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise UnparsableError(f"the body is not valid for this call: {exc}") from None
