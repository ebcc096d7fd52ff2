"""Shell patterns that match whole strings in bounded time, whatever the string."""

import fnmatch
import re
from collections.abc import Callable
from typing import Final

# Maximum length of a part with `?` or `[…]` between two stars. Such a part is tried at each position of a value, so its
# length multiplies the time. A part without `?` and `[…]` is found in linear time.
MAX_SEARCHED_WILDCARD_PART: Final = 32

_TOKEN: Final = re.compile(r"\[!?+\]?+[^\]]*+\]|.", re.DOTALL)
# Find out which text `translate` puts around a pattern, because that text differs between versions of Python.
_HEAD, _TAIL = fnmatch.translate("x").split("x")

# Finds a part of the pattern. Arguments: the value, and the positions from and up to which to search. Returns where the
# part ends, or -1.
_Search = Callable[[str, int, int], int]


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Compile a test of whether a whole string has the form of `pattern`: `*`, `?`, `[abc]`, `[a-z]`, `[!…]` as in
    `fnmatch.fnmatchcase`.

    Raise ValueError if a part between two stars is too long to search for (MAX_SEARCHED_WILDCARD_PART).
    """
    parts: list[list[str]] = [[]]
    for token in _TOKEN.findall(pattern):
        if token == "*":  # noqa: S105
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) == 1:
        return _full_match(parts[0])
    first, *between, last = parts
    starts, ends = _full_match(first), _full_match(last)
    head, tail = len(first), len(last)
    searches = [_search(part) for part in between if part]
    shortest = head + tail + sum(map(len, between))
    literal_head, literal_tail = _is_literal(first), _is_literal(last)
    text_head, text_tail = "".join(first), "".join(last)

    def matches(value: str) -> bool:
        until = len(value) - tail
        if len(value) < shortest:
            return False
        if not (value.startswith(text_head) if literal_head else starts(value[:head])):
            return False
        if not (value.endswith(text_tail) if literal_tail else ends(value[until:])):
            return False
        at = head
        for search in searches:
            at = search(value, at, until)
            if at < 0:
                return False
        return True

    return matches


def _is_literal(part: list[str]) -> bool:
    return not any(token == "?" or len(token) > 1 for token in part)  # noqa: S105


def _expression(part: list[str]) -> re.Pattern[str]:
    body = fnmatch.translate("".join(part)).removeprefix(_HEAD).removesuffix(_TAIL)
    return re.compile(f"(?s:{body})")


def _full_match(part: list[str]) -> Callable[[str], bool]:
    if _is_literal(part):
        return "".join(part).__eq__
    fullmatch = _expression(part).fullmatch
    return lambda value: fullmatch(value) is not None


def _search(part: list[str]) -> _Search:
    if _is_literal(part):
        text = "".join(part)

        def find(value: str, at: int, until: int) -> int:
            found = value.find(text, at, until)
            return found if found < 0 else found + len(text)

        return find
    if len(part) > MAX_SEARCHED_WILDCARD_PART:
        raise ValueError(f"at most {MAX_SEARCHED_WILDCARD_PART} characters with ? or [] between two *")
    search = _expression(part).search

    def find_wildcards(value: str, at: int, until: int) -> int:
        found = search(value, at, until)
        return -1 if found is None else found.end()

    return find_wildcards
