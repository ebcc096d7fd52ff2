"""Confirmations of actions on many jobs. A confirmation is a token that names the expected effect and expires."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

VALID_S: Final = 300


class ConfirmationError(Exception):
    """A token that does not confirm the call. It is not valid, too old or for another call, or more jobs would be
    affected than were confirmed."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The expected effect of an action.

    * `text`: the effect in words.
    * `count`: the number of affected jobs. If `is_exact` is false, the number is a lower bound.
    * `state`: the version of the object to change, which must still be the same when the tool acts.
    """

    text: str
    count: int
    is_exact: bool = True
    state: str = ""


class Confirmations:
    """Makes and checks tokens. Every master that knows `key` checks the tokens of the others, so nothing is stored.
    `now_s`: Unix time."""

    def __init__(self, key: bytes, now_s: Callable[[], float] = time.time) -> None:
        self._key = key
        self._now_s = now_s

    def token(self, tool: str, arguments: Mapping[str, Any], foreseen: Foreseen) -> str:
        """Return a token that allows the same call to act within the next VALID_S seconds."""
        told = [round(self._now_s()) + VALID_S, foreseen.count, foreseen.state]
        payload = json.dumps(told if foreseen.is_exact else [*told, "at least"]).encode()
        return f"{_text(payload)}.{_text(self._mark(tool, arguments, payload))}"

    def check(self, token: str, tool: str, arguments: Mapping[str, Any], present: Foreseen) -> int | None:
        """Return the number of confirmed jobs, or None if that number was a lower bound.

        Raise ConfirmationError if the token does not confirm this call, or if the call would affect more jobs
        now."""
        payload_text, _, mark_text = token.partition(".")
        try:
            payload, mark = _bytes(payload_text), _bytes(mark_text)
        except (ValueError, binascii.Error):
            raise ConfirmationError(_AGAIN.format("is not valid")) from None
        if not hmac.compare_digest(mark, self._mark(tool, arguments, payload)):
            raise ConfirmationError(_AGAIN.format("is for another call"))
        until_s, count, state, *is_lower_bound = json.loads(payload)
        if self._now_s() > until_s:
            raise ConfirmationError(_AGAIN.format(f"is older than {VALID_S // 60} minutes"))
        if state != present.state:
            raise ConfirmationError(_AGAIN.format("is for an object that has changed since"))
        if present.count > count:
            raise ConfirmationError(
                f"nothing was done: the action would now affect {present.count} jobs, but {count} were "
                "confirmed. Call again without confirm, and show the new count to the person who decides"
            )
        return None if is_lower_bound else int(count)

    def _mark(self, tool: str, arguments: Mapping[str, Any], payload: bytes) -> bytes:
        asked = {name: value for name, value in arguments.items() if name != "confirm"}
        text = json.dumps([tool, asked], sort_keys=True, separators=(",", ":"))
        return hmac.digest(self._key, payload + b"\n" + text.encode(), hashlib.sha256)[:16]


_AGAIN: Final = "nothing was done: confirm {}. Call again without it to get a new one"


def key_of(store_id: str, credential: bytes) -> bytes:
    """Return the key that signs the tokens of a caller. Answers do not contain it, so a model cannot forge a
    token."""
    return hashlib.sha256(b"jqmaster agents\n" + store_id.encode() + b"\n" + credential).digest()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
