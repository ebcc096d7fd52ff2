"""Hands the audit log on as it grows, as lines of JSON."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Final

import msgpack

from jqmaster.clock import Clock
from jqmaster.domain.instant import iso_ms
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.runtime.outbound.line_sink import LineSink
from jqmaster.store.identity.audit_export import AuditExportStore, Numbered
from jqmaster.store.leadership.leadership import Leadership

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
AGAIN_AFTER_S: Final = 5.0
ENTRIES_PER_STEP: Final = 500


class AuditExporter:
    """Component of one leadership. Each entry is written at least once, in order: how far it came is noted afterwards."""

    def __init__(
        self,
        leadership: Leadership,
        store: AuditExportStore,
        sink: LineSink,
        clock: Clock,
        *,
        on_stale: Callable[[], None],
    ) -> None:
        self._epoch = leadership.epoch
        self._store = store
        self._sink = sink
        self._clock = clock
        self._on_stale = on_stale
        self._loops = BackgroundLoops("audit_exporter")
        self._complaint = ""

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        self._sink.end()
        await self._loops.stop()
        await asyncio.to_thread(self._sink.close)

    async def _run(self) -> None:
        while True:
            pause_s = EVERY_S
            try:
                if not await self._round():
                    self._on_stale()
                    return
                self._complaint = ""
            except (JqmasterError, OSError) as exc:
                self._complain(exc.detail if isinstance(exc, JqmasterError) else str(exc))
                pause_s = AGAIN_AFTER_S
            await self._clock.sleep(pause_s)

    async def _round(self) -> bool:
        """Export what there is; False under a stale epoch."""
        # As the store has it: after a failure nothing else is known for sure.
        done = await self._store.load()
        while True:
            found = await self._store.read(done, limit=ENTRIES_PER_STEP)
            if not found:
                return True
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
            if not await self._store.save(self._epoch, found):
                return False

    def _complain(self, text: str) -> None:
        """Once for each thing, not for each try."""
        if text != self._complaint:
            self._complaint = text
            logger.error("the audit log cannot be exported, trying on: %s", text)


def line_of(one: Numbered) -> bytes:
    """One line of JSON in ASCII: nothing in it acts on a terminal or splits it."""
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
    return json.dumps(value, separators=(",", ":"), default=_spelled).encode() + b"\n"


def _spelled(value: Any) -> Any:
    """What JSON has no form for."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, msgpack.Timestamp):
        return value.to_datetime().isoformat()
    return str(value)
