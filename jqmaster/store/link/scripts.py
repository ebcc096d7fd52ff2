"""Loads the scripts of lua/ROOM/, checks each call against the script's header, and reads its reply.

The header of a script states its keys, arguments and replies:

    -- KEYS name:type …        [+ name:type …] where more may follow
    -- ARGV name(remark) …     [+ name …] where groups follow
    -- REPLY word:data | word …
    -- CHECKS FIRST …

Each field may continue in the next lines, which begin with two spaces or more after the dashes. If more than two
arguments have remarks, each argument with a remark has a line of its own. Each part of a long reply also has a line of
its own.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable

from jqmaster.store.link.script_modules import LUA, ScriptHeaderError
from jqmaster.store.link.script_source import composed

Arg = str | bytes | int | float

_FIELD = re.compile(r"^-- (KEYS|ARGV|REPLY|CHECKS FIRST)(?: (.*(?:\n--  +.*)*))?$", re.MULTILINE)
_NEXT_LINE = re.compile(r"\n--  +")
_FORGET_LAST_KEY = b"\nKEYS[#KEYS] = nil\n"
_PUBLISH = b"redis.call('PUBLISH', "
_PUBLISH_SHARDED = b"redis.call('SPUBLISH', "
_REMARK = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Script:
    """One atomic transition. `group`: the number of arguments in the group that may repeat at the end of ARGV. 0: there
    is no such group.
    """

    name: str
    source: bytes
    sha: str
    keys: tuple[str, ...]
    has_more_keys: bool
    args: tuple[str, ...]
    group: int
    replies: frozenset[str]
    writes: bool

    def text(self, *, is_guarded: bool, is_sharded: bool = False) -> bytes:
        """Return the text for EVAL. A guarded script takes the key of its guard before the keys of its header. A
        sharded script publishes its messages only on the node that holds the shard."""
        return _guarded(self.source, is_sharded)[0] if is_guarded else self.source

    def command(
        self, keys: Sequence[str], args: Sequence[Arg], guard: str | None, *, is_sharded: bool
    ) -> tuple[Arg, ...]:
        """Return the command that runs this script by its digest. `guard`: see `text`. Raise ScriptHeaderError if the
        counts do not match the header."""
        keys_fit = len(keys) == len(self.keys) or (self.has_more_keys and len(keys) > len(self.keys))
        more = len(args) - len(self.args)
        args_fit = more == 0 or (self.group > 0 and more > 0 and more % self.group == 0)
        if not (keys_fit and args_fit):
            raise ScriptHeaderError(f"{self.name} called with {len(keys)} keys and {len(args)} arguments")
        if guard is None:
            return ("EVALSHA", self.sha, len(keys), *keys, *args)
        return ("EVALSHA", _guarded(self.source, is_sharded)[1], len(keys) + 1, *keys, guard, *args)

    def unknown_reply(self, word: str) -> ScriptHeaderError:
        """Return the error for a status word that the header does not name."""
        return ScriptHeaderError(f"{self.name} answered {word!r}, which its header does not name")


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """One script with its keys and arguments."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Arg]


def parse(name: str, text: str) -> Script:
    """Parse the text of a script, in which modules are still include lines. Raise ScriptHeaderError if the header is
    incomplete.
    """
    fields = read_header(text)
    lines = text.splitlines()
    if len(fields) != 4 or not lines[0].startswith("#!lua") or not lines[1].startswith("-- "):
        raise ScriptHeaderError(
            f"{name}.lua: the header lacks a flags, description, KEYS, ARGV, REPLY or CHECKS FIRST line"
        )
    keys, has_more_keys = _names(fields["KEYS"])
    args, group = _names(fields["ARGV"])
    source = composed(text, name, args).encode()
    return Script(
        name=name,
        source=source,
        sha=hashlib.sha1(source, usedforsecurity=False).hexdigest(),
        keys=keys,
        has_more_keys=has_more_keys > 0,
        args=args,
        group=group,
        replies=frozenset(part.split(":")[0].strip() for part in fields["REPLY"].split("|")),
        writes="no-writes" not in lines[0],
    )


def read_header(text: str) -> dict[str, str]:
    """Return the fields of a script's header by name, each as one line."""
    return {match[1]: _NEXT_LINE.sub(" ", match[2] or "") for match in _FIELD.finditer(text)}


def _names(field: str) -> tuple[tuple[str, ...], int]:
    fixed, _, more = _REMARK.sub("", field).partition("[+")
    return tuple(fixed.split()), len(more.rstrip("] ").split())


@cache
def _guarded(source: bytes, is_sharded: bool) -> tuple[bytes, str]:
    head, _, rest = (source.replace(_PUBLISH, _PUBLISH_SHARDED) if is_sharded else source).partition(b"\n")
    text = head + _FORGET_LAST_KEY + rest
    return text, hashlib.sha1(text, usedforsecurity=False).hexdigest()


@cache
def _files() -> dict[str, Traversable]:
    """Return the file of each script by name. Names are unique over all rooms."""
    return {
        file.name.removesuffix(".lua"): file
        for room in LUA.iterdir()
        if room.name != "lib"
        for file in _files_in(room)
    }


def _files_in(place: Traversable) -> Iterator[Traversable]:
    if place.is_dir():
        for inner in place.iterdir():
            yield from _files_in(inner)
    elif place.name.endswith(".lua"):
        yield place


@cache
def load(name: str) -> Script:
    """Return the script `NAME.lua`."""
    return parse(name, _files()[name].read_text())


def names() -> list[str]:
    """Return the names of all scripts, sorted."""
    return sorted(_files())
