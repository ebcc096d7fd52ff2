"""Gets holidays from the sources of calendars, in a process that can be killed."""

import asyncio
import contextlib
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Final

import msgpack

from jqmaster.domain.calendars.calendar import YEARS_AFTER, YEARS_BEFORE, CalendarError, CalendarSource
from jqmaster.errors import ConflictError, OverloadedError

logger = logging.getLogger(__name__)

# Maximum time of a request, including its wait for earlier requests. The process limits its own processor time, but
# that limit does not bound the wait.
PATIENCE_S: Final = 20.0
_MODULE: Final = "jqmaster.service.calendars.source_child"


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """The holidays of a source. `weekend`: None if the source does not name the days of the weekend."""

    holidays: Mapping[date, str]
    covers_until: date | None
    weekend: Sequence[str] | None


class CalendarSources:
    """Gets holidays from libraries, in a process that can be killed. One request runs at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def ask(self, source: CalendarSource, year: int) -> SourceAnswer:
        """Return the holidays from the year before `year` to the second year after it. Raise one of these errors:

        * CalendarError if the source cannot be used,
        * ConflictError if the libraries are not installed,
        * OverloadedError if other requests have used up the time, or the process cannot start.
        """
        request = asdict(source) | {"first_year": year - YEARS_BEFORE, "last_year": year + YEARS_AFTER}
        try:
            async with asyncio.timeout(PATIENCE_S), self._turn:
                raw = await _answered(msgpack.packb(request))
        except (TimeoutError, OSError) as exc:
            logger.warning(
                "the process that reads calendars is busy or cannot start: %s", exc or "no time left"
            )
            raise OverloadedError(
                "the process that reads calendars is busy or cannot start", retry_after_s=1.0
            ) from None
        if not raw:
            raise CalendarError(
                (source.kind,), "takes too much time or memory; use fewer and simpler recurrences"
            )
        answer: dict[str, Any] = msgpack.unpackb(raw)
        if answer.get("missing"):
            raise ConflictError(
                "this master has no library of holidays: install jqmaster[calendars] where masters run; "
                "stored calendars work without it",
                code="calendars_not_installed",
            )
        if fault := answer.get("fault"):
            raise CalendarError((fault[0],), fault[1])
        until = answer["covers_until"]
        return SourceAnswer(
            {date.fromordinal(day): name for day, name in answer["holidays"]},
            None if until is None else date.fromordinal(until),
            answer["weekend"],
        )


async def _answered(request: bytes) -> bytes:
    """Run the process for a request. Return its output, which is empty if a limit ended the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        # Do not import modules from the current directory.
        "-P",
        "-m",
        _MODULE,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        # Do not pass on the environment of this process, because it contains tokens.
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,
    )
    is_over = False
    try:
        output, _ = await process.communicate(request)
        is_over = True
        return output if process.returncode == 0 else b""
    finally:
        if not is_over:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
