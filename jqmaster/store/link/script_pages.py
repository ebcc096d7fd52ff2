"""Runs one script for several shards in one call."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

from redis.exceptions import ResponseError

from jqmaster.store.link.pool import PackedCommands
from jqmaster.store.link.scripts import Arg, Script, ScriptCall

# Maximum number of joined calls in the cache.
MAX_JOINED: Final = 500
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

# If the calls of a page state no time, read the store's clock once for all shards of the page.
_NOW: Final = b"""local time = redis.call('TIME')
local now_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
"""
_FILL: Final = b"  if args[%d] == '' then args[%d] = now_ms end\n"


def in_pages(calls: Sequence[ScriptCall]) -> Sequence[Sequence[ScriptCall]]:
    """Return the calls in pages: consecutive calls of one script with equal numbers of keys and arguments."""
    pages: list[list[ScriptCall]] = []
    first: ScriptCall | None = None
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


class JoinedCall(NamedTuple):
    """One call of a script that takes several shards. `packed`: the command to send."""

    calls: Sequence[ScriptCall]
    together: ScriptCall
    packed: PackedCommands

    @classmethod
    def of(cls, calls: Sequence[ScriptCall]) -> "JoinedCall":
        """Join calls of one script, each for another shard.

        * Keys: put together by kind, those of all shards for each kind.
        * Arguments that may repeat, the last ones: those of every call.
        * Other arguments: those of the first call.

        Raise ScriptHeaderError if the counts of keys and arguments are wrong.
        """
        first = calls[0]
        shared = len(first.script.args) - first.script.group
        keys = [key for of_kind in zip(*(call.keys for call in calls), strict=True) for key in of_kind]
        args = [*first.args[:shared], *(arg for call in calls for arg in call.args[shared:])]
        command = first.script.command(keys, args, None, is_sharded=False)
        return cls(calls, ScriptCall(first.script, keys, args), PackedCommands([command]))


class JoinedCalls:
    """A cache of joined calls, because quiet shards repeat the same calls every second. A repeated call does not read
    its many keys and arguments again, which the processor's cache no longer holds.
    """

    def __init__(self) -> None:
        # By `id` of the first call, which stays valid because the entry refers to the call.
        self._known: dict[int, JoinedCall] = {}

    def of(self, calls: Sequence[ScriptCall]) -> JoinedCall:
        """Return the joined call from the cache, or join the calls with `JoinedCall.of`."""
        known = self._known.get(id(calls[0]))
        if known is None or known.calls != calls:
            if len(self._known) >= MAX_JOINED:
                self._known.clear()
            known = self._known[id(calls[0])] = JoinedCall.of(calls)
        return known


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
