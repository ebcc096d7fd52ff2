"""A challenge as its handler sees it: the address for the answer, and the callbacks that came."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from worker_sdk.shown import without_content


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge that a handler opened.

    * `request_id`: the secret that an answer to the challenge must contain.
    * `callback_url`: the address at which the outside system posts its callback.

    For example:

        opened = Challenge("a-secret", "http://127.0.0.1:8080/callbacks/a-secret")
        print(opened.callback_url)
    """

    request_id: str
    callback_url: str

    def __repr__(self) -> str:
        return without_content(self, "request_id", "callback_url")


if TYPE_CHECKING:
    from worker_sdk.forms import FormAnswer

    class Opened(Challenge):
        """The result of `ctx.open_challenge`: a `Challenge`, which an async handler awaits."""

        def __await__(self) -> Generator[Any, None, Challenge]: ...


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback of an outside system, as a master received it.

    * `content_type`: the content type that the sender stated. Empty: the sender stated no type.
    * `body`: the bytes of the body.
    * `received_at`: when the master received it, in UTC.

    For example:

        callback = Callback("application/json", b'{"frames": 120}', datetime.now(UTC))
        frames = callback.json()["frames"]
    """

    content_type: str
    body: bytes
    received_at: datetime

    def __repr__(self) -> str:
        return without_content(self, "body")

    def text(self) -> str:
        """Return the body as text in UTF-8. Raise UnicodeDecodeError if it is not UTF-8.

        For example:

            text = callback.text()
        """
        return self.body.decode()

    def json(self) -> Any:
        """Return the value of a JSON body. Raise ValueError if the body is not JSON."""
        import json

        return json.loads(self.body)

    def answer(self) -> "FormAnswer":
        """Return the answer of a person to the form of the challenge. Raise ValueError if the callback is
        something else.

        For example:

            answer = callback.answer()
            print(answer.choice, answer.comment)
        """
        from worker_sdk.forms import answer_of

        return answer_of(self.json(), self.received_at)


def callback_of(fields: Mapping[str, Any]) -> Callback:
    """Return the callback that a dispatch contains."""
    at = datetime.fromtimestamp(fields["received_at_ms"] / 1000, UTC)
    return Callback(str(fields["content_type"]), bytes(fields["body"]), at)
