"""Checks arguments against the schemas that workers declared, in a process that can be killed."""

import asyncio
import contextlib
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from jqmaster.clock import Clock
from jqmaster.errors import OverloadedError
from jqmaster.service.workers.schema_child import LENGTH, MAX_SCHEMAS
from jqmaster.service.workers.schemas import BadSchemaError, Misfit

logger = logging.getLogger(__name__)

# Maximum time for one caller's tasks, including their wait for earlier callers. The process limits the processor time
# of each task, but that limit does not bound the wait.
PATIENCE_S: Final = 5.0
# Time for which a schema is not used after it took too much time or memory.
REST_S: Final = 60.0
MAX_RESTING: Final = 10_000
_MODULE: Final = "jqmaster.service.workers.schema_child"


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """A task of the process.

    * `schemas`: JSON texts by digest. An argument fits if it fits one of them.
    * `argument`: None if the task is to check the schema itself.
    """

    schemas: Mapping[str, str]
    argument: bytes | None


# The answer if an argument could not be checked.
UNJUDGED: Final = None


class SchemaJudge:
    """Component: checks arguments and schemas in a process of its own. The process starts with the first task, and is
    started again if it has ended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._process: Process | None = None
        self._sent: set[str] = set()
        self._turn = asyncio.Lock()
        # Maps the digest of a schema to the time until which the schema is not used, because it took too much time or
        # memory.
        self._resting: dict[str, float] = {}

    async def start(self) -> None:
        """Do nothing: most masters never check an argument, so the process starts with the first task."""

    async def stop(self) -> None:
        await self._end(is_over=False)

    async def fault(self, digest: str, text: str) -> str | None:
        """Return the fault of a schema, or None if it is valid. Raise BadSchemaError if the check took too much time or
        memory. Raise OverloadedError if the process was busy for other callers or cannot start."""
        task = JudgeTask({digest: text}, None)
        (answer,) = await self._ask([task])
        if answer is _NO_ANSWER:
            if not self._rests(task):
                raise _busy()
            raise BadSchemaError(
                "takes too much time or memory to compile; use fewer and smaller patterns and alternatives"
            )
        return None if answer is None else str(answer)

    async def misfits(self, tasks: Sequence[JudgeTask]) -> list[list[Misfit] | None]:
        """Return the misfits for each task, or UNJUDGED if its check took too much time or memory. Raise
        OverloadedError if the process was busy for other callers or cannot start."""
        found: list[list[Misfit] | None] = []
        for task, answer in zip(tasks, await self._ask(tasks), strict=True):
            if answer is not _NO_ANSWER:
                found.append([Misfit(tuple(path), message, keyword) for path, message, keyword in answer])
            elif self._rests(task):
                found.append(UNJUDGED)
            else:
                raise _busy()
        return found

    async def _ask(self, tasks: Sequence[JudgeTask]) -> list[Any]:
        answers: list[Any] = [_NO_ANSWER] * len(tasks)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S), self._turn:
                await self._answer(tasks, answers)
        return answers

    async def _answer(self, tasks: Sequence[JudgeTask], answers: list[Any]) -> None:
        pending = list(range(len(tasks)))
        while pending := [n for n in pending if not self._rests(tasks[n])]:
            is_whole, is_over = False, False
            try:
                process = await self._started()
                await self._send(process, [tasks[n] for n in pending])
                assert process.stdout is not None
                while pending:
                    head = await process.stdout.readexactly(LENGTH.size)
                    body = await process.stdout.readexactly(LENGTH.unpack(head)[0])
                    answers[pending.pop(0)] = msgpack.unpackb(body)
                is_whole = True
            except OSError as exc:
                if not isinstance(exc, ConnectionError):
                    logger.warning("no process to check arguments can be started: %s", exc)
                    return
                is_over = True
                self._let_rest(tasks[pending[0]])
            except asyncio.IncompleteReadError:
                is_over = True
                self._let_rest(tasks[pending[0]])
            finally:
                # End the process if answers are missing. Otherwise, late answers would be taken for answers to the next
                # tasks.
                if not is_whole:
                    await asyncio.shield(self._end(is_over=is_over))

    async def _send(self, process: Process, tasks: Sequence[JudgeTask]) -> None:
        needed = {digest: text for task in tasks for digest, text in task.schemas.items()}
        forget = len(self._sent | needed.keys()) > MAX_SCHEMAS
        if forget:
            self._sent.clear()
        request = msgpack.packb(
            {
                "forget": forget,
                "schemas": {digest: text for digest, text in needed.items() if digest not in self._sent},
                "tasks": [(list(task.schemas), task.argument) for task in tasks],
            }
        )
        self._sent |= needed.keys()
        assert process.stdin is not None
        process.stdin.write(LENGTH.pack(len(request)) + request)
        await process.stdin.drain()

    async def _started(self) -> Process:
        if self._process is None:
            self._sent.clear()
            self._process = await asyncio.create_subprocess_exec(
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
        return self._process

    async def _end(self, *, is_over: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # Do not kill a process that has ended: `kill` would collect its exit status, and asyncio would wait for it in
        # vain.
        if not is_over:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()

    def _rests(self, task: JudgeTask) -> bool:
        now_s = self._clock.monotonic_s()
        return any(self._resting.get(digest, 0.0) > now_s for digest in task.schemas)

    def _let_rest(self, task: JudgeTask) -> None:
        if len(self._resting) >= MAX_RESTING:
            self._resting.clear()
        until_s = self._clock.monotonic_s() + REST_S
        self._resting.update(dict.fromkeys(task.schemas, until_s))
        logger.warning(
            "a declared schema (%s) took too much time or memory for an argument; it is not used for %.0f s",
            ", ".join(task.schemas),
            REST_S,
        )


_NO_ANSWER: Final = object()


def _busy() -> OverloadedError:
    return OverloadedError("the process that checks arguments is busy or cannot start", retry_after_s=1.0)
