"""The examples in the docstrings of the SDK run as written, with a master and a worker."""

import ast
import asyncio
import contextlib
import datetime
import inspect
import io
import logging
import sys
import threading
import time
import types
import typing
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import worker_sdk
from tests.support import real_time
from tests.support.docstring_examples import examples_in
from tools.sdk_reference import ENTRIES, definition, members, text_of
from worker_sdk import (
    INPUTS,
    Context,
    Pusher,
    SyncPusher,
    Tasks,
    Worker,
    configure,
    middleware,
    outbox,
    testing,
    tracing,
)
from worker_sdk.outbox.relay import AsyncRelay, Relay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox, outbox_table
from worker_sdk.testing import WorkerHarness

pytestmark = real_time.MASTER

WRITTEN_URL = "http://127.0.0.1:8080"
# Their packages need settings, or a site: `tests/sdk/django` and `tests/sdk/middleware` use them.
ONLY_COMPILED = ("django.", "middleware.sentry", "middleware.django")
# Names that examples read and do not define.
GIVEN: dict[str, Any] = {
    **{name: getattr(worker_sdk, name) for name in worker_sdk.__all__},
    **{name: getattr(testing, name) for name in testing.__all__},
    **{name: getattr(outbox, name) for name in outbox.__all__},
    **{name: getattr(middleware, name) for name in middleware.__all__ if name != "DjangoConnections"},
    "Any": Any,
    "AsyncIterator": AsyncIterator,
    "Iterator": Iterator,
    "Relay": Relay,
    "AsyncRelay": AsyncRelay,
    "SqlAlchemyOutbox": SqlAlchemyOutbox,
    "outbox_table": outbox_table,
    "UTC": datetime.UTC,
    "datetime": datetime.datetime,
    "timedelta": datetime.timedelta,
    "asyncio": asyncio,
    "httpx": httpx,
    "io": io,
    "logging": logging,
    "threading": threading,
    "time": time,
    "sqlalchemy": sqlalchemy,
    "tracing": tracing,
    "typing": typing,
    "seal": worker_sdk.Seal(keys={"2026a": worker_sdk.Seal.new_key()}),
}


def examples() -> Iterator[tuple[str, str]]:
    """Yield the path of each public name, and each of its examples."""
    for entry in ENTRIES:
        node = definition(entry)
        yield from ((entry.path, one) for one in examples_in(text_of(node)))
        if isinstance(node, ast.ClassDef):
            for member in members(node):
                yield from ((f"{entry.path}.{member.name}", one) for one in examples_in(text_of(member)))


def album() -> tuple[Tasks, dict[str, Any]]:
    """Return the tasks of the examples, with their functions by name."""
    tasks = Tasks()

    @tasks.task("thumbnail.make", keep_result=True)
    def make_thumbnail(photo_id: int, width: int = 320) -> int:
        return width

    @tasks.task("album.publish")
    def publish(album: int) -> None: ...

    @tasks.task("width.add")
    def add_up(widths: list[int] = INPUTS) -> int:
        return sum(widths)

    @tasks.task("clean.up")
    def clean_up(older_than_days: int = 7) -> None: ...

    return tasks, {
        "make_thumbnail": make_thumbnail,
        "publish": publish,
        "add_up": add_up,
        "clean_up": clean_up,
    }


class Stand:
    """Everything that examples are given, anew for each."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.left: AsyncSession | None = None

    async def run(self, path: str, source: str) -> None:
        """Run one example. Raise what it raises, unless it is there to be raised."""
        code = compile(
            source.replace(WRITTEN_URL, self.url), path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        if path.startswith(ONLY_COMPILED):
            return
        is_async = bool(code.co_flags & inspect.CO_COROUTINE) or "asyncio.create_task" in source
        names = _free_names(source)
        module = types.ModuleType("example")
        with contextlib.ExitStack() as stack:
            module.__dict__.update(GIVEN | await self._given(source, names, is_async, stack))
            sys.modules["example"] = module
            stack.callback(sys.modules.pop, "example")
            if "ctx" in names:
                await self._run_in_a_handler(module, code)
                return
            try:
                if is_async:
                    if (coroutine := eval(code, module.__dict__)) is not None:
                        await coroutine
                else:
                    await asyncio.to_thread(exec, code, module.__dict__)
            except BaseException as exc:
                if f"raise {type(exc).__name__}(" not in source:
                    raise

    async def _given(
        self, source: str, names: set[str], is_async: bool, stack: contextlib.ExitStack
    ) -> dict[str, Any]:
        tasks, functions = album()
        given: dict[str, Any] = {"tasks": tasks, **functions}
        async with Pusher(self.url) as pusher:
            job_id = await pusher.enqueue("thumbnail.make", {"photo_id": 1}, keep_result=True)
            if "batch_id" in names:
                given["batch_id"] = worker_sdk.make_job("x")["id"]
                if "create_batch" not in source:
                    await pusher.create_batch({"id": given["batch_id"]})
        given["job_id"] = job_id
        given["handle"] = functions["make_thumbnail"].handle(job_id)
        given["pusher"] = Pusher(self.url) if is_async else SyncPusher(self.url)
        given["worker"] = Worker(self.url, tasks=tasks)
        given["flow"] = worker_sdk.Flow()
        given["callback"] = worker_sdk.Callback(
            "application/json", b'{"choice": "approve"}', datetime.datetime.now(datetime.UTC)
        )
        if "batch" in names:
            given["batch"] = worker_sdk.Batch()
            await given["batch"].acreate()
        if names & {"engine", "session", "outbox", "relay"}:
            given |= await self._database(is_async, stack)
        return given

    async def _database(self, is_async: bool, stack: contextlib.ExitStack) -> dict[str, Any]:
        file = self.folder / f"{time.monotonic_ns()}.db"
        if not is_async:
            engine = sqlalchemy.create_engine(f"sqlite:///{file}")
            stack.callback(engine.dispose)
            rows = SqlAlchemyOutbox(engine)
            rows.create_table()
            session = Session(engine)
            stack.callback(session.close)
            return {"engine": engine, "session": session, "outbox": rows, "relay": Relay(rows)}
        asynchronous = create_async_engine(f"sqlite+aiosqlite:///{file}", poolclass=sqlalchemy.NullPool)
        rows = SqlAlchemyOutbox(asynchronous)
        await rows.acreate_table()
        self.left = AsyncSession(asynchronous)
        return {"engine": asynchronous, "session": self.left, "outbox": rows, "relay": AsyncRelay(rows)}

    async def _run_in_a_handler(self, module: types.ModuleType, code: types.CodeType) -> None:
        worker = Worker()

        @worker.handler("example")
        def handle(argument: None, ctx: Context) -> None:
            module.__dict__["ctx"] = ctx
            exec(code, module.__dict__)

        ending = await WorkerHarness(worker).run("example", inputs=[320, 640])
        assert ending.fields.get("error") is None, ending.fields["error"]["traceback"]


def _free_names(source: str) -> set[str]:
    """Return the names that an example reads outside of its functions and classes."""
    found: set[str] = set()

    def look(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if isinstance(child, ast.Name):
                found.add(child.id)
            look(child)

    look(ast.parse(source))
    return found


async def test_every_example_in_a_docstring_runs(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand = Stand(url, tmp_path)
    failed: list[str] = []
    every = list(examples())
    assert len(every) > 200
    configure(url=url)
    try:
        async with Worker(url, tasks=album()[0]).running():
            for path, source in every:
                try:
                    async with asyncio.timeout(30):
                        await stand.run(path, source)
                except BaseException as exc:
                    failed.append(f"{path}: {type(exc).__name__}: {exc}\n{source}")
                if stand.left is not None:
                    await stand.left.close()
                    stand.left = None
    finally:
        configure()
        tracing.uninstrument()
    assert failed == [], "\n\n".join(failed)
