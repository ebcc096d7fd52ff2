"""Export the audit log as it grows, as lines of JSON."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Final

import msgpack

from jqmaster.clock import Clock
from jqmaster.domain.instant import iso_ms
from jqmaster.errors import JqmasterError
from jqmaster.runtime.outbound.line_sink import LineSink
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.identity.audit_export import AuditExportStore, Numbered
from jqmaster.store.leadership.leadership import Leadership

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
AGAIN_AFTER_S: Final = 5.0
ENTRIES_PER_STEP: Final = 500


class AuditExporter(LeaderLoop):
    """A duty of one leadership: exports the audit log. It writes each entry at least once, in order, because it saves
    its position only after the write."""

    is_vital = False

    def __init__(
        self,
        leadership: Leadership,
        store: AuditExportStore,
        sink: LineSink,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "audit_exporter",
            clock,
            complaint="cannot export the audit log; trying again",
            on_stale=on_stale,
            retry_s=AGAIN_AFTER_S,
        )
        self._expected = (JqmasterError, OSError)
        self._epoch = leadership.epoch
        self._store = store
        self._sink = sink
        self._said = ""

    async def stop(self) -> None:
        self._sink.end()
        await super().stop()
        await asyncio.to_thread(self._sink.close)

    def _failed(self, error: Exception, complaint: str) -> None:
        """Log each failure once, and not at each retry."""
        text = error.detail if isinstance(error, JqmasterError) else str(error)
        if text != self._said:
            self._said = text
            logger.error("%s: %s", complaint, text)

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def _round(self) -> float:
        await self._export()
        self._said = ""
        return EVERY_S

    async def _export(self) -> None:
        """Export all present entries."""
        # Read the export's position from the store: after a failed round, the position in memory may be wrong.
        done = await self._store.load()
        while True:
            found = await self._store.read(done, limit=ENTRIES_PER_STEP)
            if not found:
                return
            for one in found:
                log = one.entry.log
                before = done[log][1]
                if before and one.number > before + 1:
                    logger.error(
                        "%d entries of the audit log %s were removed before they were exported",
                        one.number - before - 1,
                        log,
                    )
                done[log] = (one.position, one.number)
            await asyncio.to_thread(self._sink.write, b"".join(map(line_of, found)))
            await self._store.save(self._epoch, found)


def line_of(one: Numbered) -> bytes:
    """Return one line of JSON in ASCII, so that nothing in it controls a terminal or splits the line."""
    entry = one.entry
    value = {
        "log": entry.log,
        "number": one.number,
        "id": entry.id,
        "at": iso_ms(entry.at_ms),
        "times": entry.times,
        "since": iso_ms(entry.since_ms or entry.at_ms),
        "who": entry.who,
        "action": entry.action,
        "target": entry.target,
        "before": entry.before,
        "after": entry.after,
    }
    return json.dumps(value, separators=(",", ":"), default=_json_fallback).encode() + b"\n"


def _json_fallback(value: Any) -> Any:
    """Return the text that stands for a value that JSON cannot represent."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, msgpack.Timestamp):
        return value.to_datetime().isoformat()
    return str(value)
