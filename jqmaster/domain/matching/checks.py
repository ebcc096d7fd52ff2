"""The error of matchers and paths, and the checks that they share."""

import math
from typing import Final

MAX_TEXT: Final = 1024
Loc = tuple[str | int, ...]


class MatcherError(ValueError):
    """A matcher or path that is refused. `loc`: the path to the faulty part; `msg`: the rule that it breaks."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(f"{'.'.join(map(str, loc))}: {msg}" if loc else msg)
        self.loc = loc
        self.msg = msg


def check_scalar(value: object, loc: Loc) -> None:
    """Raise MatcherError if no value of a job can be compared with this one."""
    match value:
        case None | bool():
            return
        case int():
            if not -(2**63) <= value < 2**64:
                raise MatcherError(loc, "an integer exceeds 64 bits")
        case float():
            if not math.isfinite(value):
                raise MatcherError(loc, "not a finite number")
        case str():
            check_text(value, loc)
        case bytes():
            if len(value) > MAX_TEXT:
                raise MatcherError(loc, f"longer than {MAX_TEXT} bytes")
        case _:
            raise MatcherError(loc, "must be null, a boolean, a number, text or binary")


def check_text(text: str, loc: Loc) -> None:
    """Raise MatcherError if the text is too long or cannot be encoded."""
    if len(text) > MAX_TEXT:
        raise MatcherError(loc, f"longer than {MAX_TEXT} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MatcherError(loc, "not Unicode text: half of a surrogate pair") from None
