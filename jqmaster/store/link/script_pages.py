"""Runs one script for a page of shards in one call."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

from redis.exceptions import ResponseError

from jqmaster.store.link.pool import PackedCommands
from jqmaster.store.link.scripts import Arg, Script, ScriptCall

# Maximum number of round trips in the cache.
MAX_TRIPS: Final = 500
# The template of a page: it runs one script for several shards in turn, each with its own keys and arguments. An error
# affects only its shard.
_PAGE: Final = b"""%(flags)s
local function of_one(KEYS, ARGV)
%(body)s
end
local keys_each, args_each = tonumber(ARGV[1]), tonumber(ARGV[2])
local replies = {}
%(now)sfor page_number = 1, #KEYS / keys_each do
  local keys, args = {}, {}
  for n = 1, keys_each do keys[n] = KEYS[(page_number - 1) * keys_each + n] end
  for n = 1, args_each do args[n] = ARGV[2 + (page_number - 1) * args_each + n] end
%(fill)s  local is_done, reply = pcall(of_one, keys, args)
  if not is_done then reply = {err = type(reply) == 'table' and reply.err or 'ERR ' .. tostring(reply)} end
  replies[page_number] = reply
end
return replies
"""

# Read the store's clock once for all shards of a page whose calls state no time.
_NOW: Final = b"""local time = redis.call('TIME')
local now_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
"""
_FILL: Final = b"  if args[%d] == '' then args[%d] = now_ms end\n"


def in_pages(calls: Sequence[ScriptCall]) -> Sequence[Sequence[ScriptCall]]:
    """Return the calls in pages: consecutive calls of one script with equal numbers of keys and arguments."""
    pages: list[list[ScriptCall]] = []
    first: ScriptCall | None = None
    # Use one loop and call no function for each item: these comparisons are a large part of the cost of a quiet shard.
    for call in calls:
        if (
            first is not None
            and call.script is first.script
            and len(call.keys) == len(first.keys)
            and len(call.args) == len(first.args)
        ):
            pages[-1].append(call)
        else:
            first = call
            pages.append([call])
    return pages


def page_call(page: Sequence[ScriptCall]) -> ScriptCall:
    """Combine the calls of a page into one call. Raise ScriptHeaderError if their numbers of keys or arguments are
    wrong."""
    first = page[0]
    if len(page) == 1:
        return first
    # Build the command of the first call only to check the numbers of its keys and arguments.
    first.script.command(first.keys, first.args, None, is_sharded=False)
    keys: list[str] = []
    args: list[Arg] = [len(first.keys), len(first.args)]
    for call in page:
        keys += call.keys
        args += call.args
    return ScriptCall(_paged(first.script), keys, args)


class PagedTrip(NamedTuple):
    """A round trip for calls of different shards.

    * `together`: for each page, the one call that makes its calls.
    * `commands`: the commands to send. None: they are not composed yet.
    """

    calls: Sequence[ScriptCall]
    pages: Sequence[Sequence[ScriptCall]]
    together: Sequence[ScriptCall]
    commands: PackedCommands | None = None

    @classmethod
    def of(cls, calls: Sequence[ScriptCall]) -> "PagedTrip":
        """Return the round trip for these calls. Raise ScriptHeaderError if the counts of keys and arguments are
        wrong."""
        pages = in_pages(calls)
        return cls(calls, pages, [*map(page_call, pages)])


class RepeatedTrips:
    """Keeps the commands of round trips that repeat the same calls, as quiet shards do every second. A repeated trip
    does not touch its many keys and arguments, which the processor's cache no longer holds."""

    def __init__(self) -> None:
        # By `id` of the first call, which stays valid because the entry refers to the call.
        self._known: dict[int, PagedTrip] = {}

    def trip(self, calls: Sequence[ScriptCall]) -> PagedTrip:
        """Return the round trip for these calls. Raise what `PagedTrip.of` raises."""
        known = self._known.get(id(calls[0]))
        if known is None or known.calls != calls:
            trip = PagedTrip.of(calls)
        elif known.commands is None:
            commands = (
                call.script.command(call.keys, call.args, None, is_sharded=False) for call in known.together
            )
            trip = known._replace(commands=PackedCommands(commands))
        else:
            return known
        if len(self._known) >= MAX_TRIPS:
            self._known.clear()
        self._known[id(calls[0])] = trip
        return trip


def page_replies(page: Sequence[ScriptCall], reply: Any) -> Sequence[Any] | None:
    """Return the reply to each call of a page, or None if the store refused the page as a whole, and did nothing."""
    if len(page) == 1:
        return (reply,)
    return None if isinstance(reply, ResponseError) else reply


@cache
def _paged(script: Script) -> Script:
    flags, _, body = script.source.partition(b"\n")
    now, fill = b"", b""
    if "now_ms" in script.args:
        at = script.args.index("now_ms") + 1
        now, fill = _NOW, _FILL % (at, at)
    source = _PAGE % {b"flags": flags, b"body": body, b"now": now, b"fill": fill}
    return replace(
        script,
        source=source,
        sha=hashlib.sha1(source, usedforsecurity=False).hexdigest(),
        keys=(),
        has_more_keys=True,
        args=("keys_each", "args_each"),
        group=1,
        replies=frozenset(),
    )
