"""Groups of similar failures. The failures of a group have the same name, cause and place in the code. If their place
is unknown, their messages differ only in parts that vary."""

import hashlib
import ipaddress
import re
from functools import lru_cache
from typing import Final

# How many characters of a message are examined. The ends of longer messages hardly help to distinguish failures.
MAX_LOOKED_AT: Final = 1_000
MAX_MESSAGE: Final = 200
_CUT: Final = "…"

# Matches parts of a message that vary. It tries all alternatives in one pass, and the first match wins. Each
# alternative ends at a character that it cannot contain, so that no message takes long to scan.
_VARYING: Final = re.compile(
    r"""
      (?P<url>  [A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s"'<>]+ )
    | (?P<text> "[^"]*" | `[^`]*` | “[^”]*” | «[^»]*» | 「[^」]*」 | (?<!\w)'[^']*'(?!\w) )
    | (?P<address>
        (?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)*
      | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?::\d{1,5})?(?![\w.]) )
    | (?P<ipv6> (?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:]) )
    | (?P<id>
        (?<![0-9A-Za-z])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Za-z])
      | (?<![0-9A-Za-z])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[0-9A-Za-z]{16,} )
    | (?P<path>
        (?<![\w.~/<])(?:~|\.{1,2})?/[\w.@%+~-]+(?:/[\w.@%+~-]+)*/?
      | (?<!\w)[A-Za-z]:\\[^\s"'<>|:]* )
    | (?P<n>
        (?<![0-9A-Za-z])0[xX][0-9A-Fa-f]+
      | (?<![0-9A-Za-z])(?=[A-Fa-f]*\d)(?=\d*[A-Fa-f])[0-9A-Fa-f]{8,}(?![0-9A-Za-z])
      | (?:(?<![\w)])[-+])?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+(?!\w))? )
    """,
    re.VERBOSE,
)
_NUMBER: Final = re.compile(r"\d+")
# Matches parts that the message keeps: a status or error code, or the name of a key or column. They vary little and
# identify the fault.
_TELLING: Final = re.compile(
    r"""
      (?i: https?(?:/\d(?:\.\d)?)? | status | code | error | errno | answered | returned | response | exited )
      [ :=(]{1,2} \d{1,4} (?![\w.,]*\d)
    | (?i: key | column | attribute | field | relation | table | module | parameter | argument | property | index
        | constraint | function | method | option | class | type | error: )
      [ ] (?P<quote>['"`]) [A-Za-z_][A-Za-z_.]{0,39} (?P=quote)
    | '[A-Za-z_]{1,40}' (?=[ ]object[ ])
    """,
    re.VERBOSE,
)


def _placeholder(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind != "ipv6":
        return f"<{kind}>"
    try:
        ipaddress.IPv6Address(match[0])
    except ValueError:
        # The text is not an address but a time of day, or a name such as `a::b`.
        return _NUMBER.sub("<n>", match[0])
    return "<address>"


@lru_cache(maxsize=1_024)
def _normalised(message: str) -> str:
    if not message.isprintable():
        message = "".join(c if c.isprintable() else " " for c in message)
    parts, at = [], 0
    for telling in _TELLING.finditer(message):
        parts += [_VARYING.sub(_placeholder, message[at : telling.start()]), telling[0]]
        at = telling.end()
    parts.append(_VARYING.sub(_placeholder, message[at:]))
    return _shortened("".join(parts))


def _shortened(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + _CUT


def normalise(message: str) -> str:
    """Return the part that messages of one kind have in common, at most `MAX_MESSAGE` printable characters.
    Placeholders such as `<id>` and `<n>` replace IDs, numbers, quoted text, paths, URLs and addresses. Status codes and
    the names of keys and columns stay, because they distinguish faults.
    """
    return _normalised(message[:MAX_LOOKED_AT])


def failure_group_id(name: str, cause: str, message: str, frame: str = "") -> str:
    """Return 16 hexadecimal digits, the same for all failures of one kind.

    * `cause`: as the API names it.
    * `message`: from the record of the attempt.
    * `frame`: the `kind` of its stack frame. Empty: it has none. With a frame, only the parts of the message that
      distinguish faults count, such as a status code. The rest may hold data of a job.
    """
    if frame:
        told = [telling[0] for telling in _TELLING.finditer(message[:MAX_LOOKED_AT])]
        return _digest(name, cause, "\0".join((frame, *told)))
    return _digest(name, cause, normalise(message))


def failure_group_ids(name: str, cause: str, message: str, frame: str = "") -> tuple[str, ...]:
    """Return the IDs of the groups in which such a failure may be counted:

    * the current group,
    * the group of version 0.3, which did not look at frames,
    * the group of version 0.2, which did not look at numbers or quoted text.
    """
    printable = "".join(c if c.isprintable() else " " for c in message[:MAX_LOOKED_AT])
    former = _shortened(_VARYING.sub(_placeholder, printable))
    by_message = failure_group_id(name, cause, message)
    current = (failure_group_id(name, cause, message, frame),) if frame else ()
    return *current, by_message, _digest(name, cause, former)


def _digest(name: str, cause: str, kind: str) -> str:
    text = "\0".join((name, cause, kind))
    # Encode lone surrogates, too: text from outside may contain them, although UTF-8 does not allow them.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
