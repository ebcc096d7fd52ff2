"""Keeps one Valkey alive on one data directory."""

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from jqmaster.embedded.binary import wheel_binary
from jqmaster.embedded.diagnosis import Cause, EndDiagnosis, advice, diagnose, error_of, last_ending
from jqmaster.embedded.directory import DataDirectory
from jqmaster.embedded.files import BEGIN_ANEW, AppendOnlyFiles
from jqmaster.embedded.process import ServerProcess
from jqmaster.errors import StoreUnavailableError, StoreUnfitError
from jqmaster.lifecycle import BackgroundLoops

logger = logging.getLogger(__name__)

State = Literal[
    "stopped", "starting", "loading", "rewriting", "running", "disk_full", "disk_error", "damaged", "crashed"
]

POLL_S = 0.02
CALL_TIMEOUT_S = 5.0
FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 10.0
STEADY_AFTER_S = 60.0
ADOPT_WITHIN_S = 10.0
SHUTDOWN_WITHIN_S = 20.0
TERMINATE_WITHIN_S = 60.0
LINGER_S = 60.0
_REWRITING = (
    "an fsync of the disk has failed, so a part of the data may be only in memory. The data are being "
    "rewritten. No accepted job is lost. The store serves again when the rewrite is complete"
)


@dataclass(frozen=True, slots=True)
class EmbeddedStatus:
    """State for /readyz and `doctor`. The store serves only in the state `running`. `detail`: advice for
    operators."""

    state: State
    pid: int | None = None
    restarts: int = 0
    detail: str = ""


class EmbeddedValkey:
    """A lifecycle component. `start` returns when the server serves, and `stop` returns when it has shut down.

    A server that has outlived a killed master is taken over without a restart. A crashed server is restarted
    again and again, with backoff. This component never deletes or repairs data.

    After a failed fsync, the append-only file is rewritten before the server serves anybody. A separate server
    rewrites the file and is then stopped, so that no client reaches it by mistake.
    """

    def __init__(self, data_dir: Path, binary: Path | None = None, *, mark_key: str | None = None) -> None:
        """Supervise the server on `data_dir`.

        `mark_key`: the key of the mark of the data. The mark shows the difference between a new store and a store
        that has lost its data."""
        self._directory = DataDirectory(data_dir)
        self._files = AppendOnlyFiles(self._directory.path)
        self._mark_key = mark_key
        self._binary = binary
        self._process: ServerProcess | None = None
        self._client: Redis | None = None
        self._loops = BackgroundLoops("embedded_valkey", is_vital=True)
        self._status = EmbeddedStatus("stopped")
        # Called when the status has changed.
        self.on_change: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        """Return the address, `unix://…`. It contains the password, so it is a secret. It is known once `start`
        has begun, and does not change with restarts."""
        return self._directory.url()

    def status(self) -> EmbeddedStatus:
        return self._status

    async def start(self) -> None:
        """Start the server. Raise DataDirInUseError, StoreUnfitError for the directory or the binary, DamagedError for
        the data, and StoreUnavailableError for the disk.
        """
        self._directory.hold()
        try:
            self._client = self._connect(self._directory.socket())
            self._set("starting")
            # Record the doubt now, because the server's master may have been killed before it could record it.
            if (last := last_ending(self._directory.log)) and last.leaves_doubt:
                self._directory.doubt()
            if taken_over := await self._take_over():
                self._process = taken_over
                ending = await self._until_serving(taken_over)
            else:
                ending = await self._bring_up()
            if ending is None and (fault := await self._fault_of_mark()):
                ending = EndDiagnosis("damaged", fault)
            if ending:
                raise error_of(ending, self._advice(ending))
        except BaseException:
            # After a failed start, release the directory and end a server that has started only partly.
            await asyncio.shield(self.stop())
            raise
        self._loops.spawn("watch", self._watch)

    async def stop(self) -> None:
        """End the server. This component stops last, because other components may still have something to write."""
        await self._loops.stop()
        if self._process is not None:
            await self._end(self._process)
            self._process = None
        if self._client is not None:
            await self._client.aclose()
            self._client = None
        self._directory.release()
        self._set("stopped")

    async def _take_over(self) -> ServerProcess | None:
        """Return the living server of this directory. Return None if there is no server, or no server that could
        be kept."""
        lock = self._directory.try_server_lock()
        if lock is not None:
            os.close(lock)
            return None
        answered = await self._ask_pid()
        process = ServerProcess.adopt(self._directory, answered or self._directory.pid_in_file())
        if process is None:
            return None
        self._process = process
        if not answered:
            reason = "does not answer"
        elif self._directory.is_in_doubt():
            reason = "serves from a file in doubt"
        elif self._directory.written_config() != self._directory.wanted_config(self._server_binary()):
            reason = "has another configuration"
        else:
            logger.info("took over the Valkey of %s (process %d)", self._directory.path, process.pid)
            return process
        logger.warning(
            "the Valkey of %s (process %d) %s and is replaced", self._directory.path, process.pid, reason
        )
        await self._end(process)
        return None

    async def _ask_pid(self) -> int:
        """Return the process ID of the server that answers on our socket with our password. Return 0 if no server
        answers in time."""
        deadline = time.monotonic() + ADOPT_WITHIN_S
        while time.monotonic() < deadline:
            with contextlib.suppress(RedisError, OSError):
                return int((await self._redis().info("server"))["process_id"])
            # If no server answers, a server may still be starting because its master was killed a moment ago, or
            # it may be ending. Only a free lock shows that no server runs.
            lock = self._directory.try_server_lock()
            if lock is not None:
                os.close(lock)
                return 0
            await asyncio.sleep(POLL_S)
        return 0

    async def _server_lock(self) -> int:
        """Wait until no process of an ended server holds the server lock, and return the lock. A fork that was
        rewriting the append-only file may live a moment longer than its server."""
        deadline = time.monotonic() + LINGER_S
        while (lock := self._directory.try_server_lock()) is None:
            if time.monotonic() > deadline:
                raise StoreUnfitError(
                    f"an unknown process holds {self._directory.path}/server.lock; find it with `fuser` and end it"
                )
            await asyncio.sleep(POLL_S)
        return lock

    async def _bring_up(self) -> EndDiagnosis | None:
        """Start a server on files that can be trusted, and wait until it serves. Return a diagnosis if the start
        fails."""
        lock = await self._server_lock()
        try:
            if fault := self._files.damage(expects_data=bool(self._directory.marks())):
                os.close(lock)
                return EndDiagnosis("damaged", fault)
            if cut := self._files.cut_zeros():
                logger.warning(
                    "%d zeros at the end of %s, left by a power cut, were cut off; they are kept as %s",
                    cut.count,
                    cut.file,
                    cut.kept.name,
                )
        except OSError:
            os.close(lock)
            raise
        if self._directory.is_in_doubt():
            if ending := await self._rewrite(lock):
                return ending
            self._set("starting")
            lock = await self._server_lock()
        self._process = ServerProcess.spawn(self._directory, self._server_binary(), lock)
        return await self._until_serving(self._process)

    async def _rewrite(self, server_lock: int) -> EndDiagnosis | None:
        """Rewrite the append-only file from its readable content, with a server that nobody else can reach.
        Return a diagnosis if the rewrite failed. The file is then still in doubt."""
        self._set("rewriting", None, _REWRITING)
        logger.warning("%s: %s", self._directory.path, _REWRITING)
        before = self._files.names()
        self._process = process = ServerProcess.spawn(
            self._directory, self._server_binary(), server_lock, is_private=True
        )
        client = self._connect(self._directory.private_socket())
        try:
            if ending := await self._until_answering(process, client):
                return ending
            if fault := await self._rewrite_fault(process, client):
                return fault
            await self._end(process, client)
        finally:
            await client.aclose()
        if before & self._files.names():
            return EndDiagnosis("crashed", "the append-only file was not rewritten")
        self._files.sync()
        self._directory.trust()
        logger.info("%s: the data were rewritten", self._directory.path)
        return None

    async def _rewrite_fault(self, process: ServerProcess, client: Redis) -> EndDiagnosis | None:
        try:
            await client.bgrewriteaof()
            while not process.ended.is_set():
                state = await client.info("persistence")
                if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
                    if state["aof_last_bgrewrite_status"] == "ok":
                        return None
                    break
                await asyncio.sleep(POLL_S)
        except (RedisError, OSError) as error:
            logger.warning("the data could not be rewritten: %s", error)
        await self._end(process, client)
        ending = diagnose(self._directory.log, process.log_start_byte, was_serving=True)
        return ending if ending.cause != "crashed" else EndDiagnosis("disk_error", ending.line)

    async def _until_serving(self, process: ServerProcess) -> EndDiagnosis | None:
        if ending := await self._until_answering(process, self._redis()):
            return ending
        self._set("running", process.pid)
        return None

    async def _until_answering(self, process: ServerProcess, client: Redis) -> EndDiagnosis | None:
        """Wait until the server answers or ends. Reading a large file takes minutes. Return a diagnosis if the
        server ended."""
        while not process.ended.is_set():
            try:
                await client.ping()
            except BusyLoadingError:
                if self._status.state != "rewriting":
                    self._set("loading", process.pid, "the server reads its data")
            except (RedisError, OSError):
                pass  # the server is not listening yet
            else:
                return None
            await asyncio.sleep(POLL_S)
        return diagnose(self._directory.log, process.log_start_byte, was_serving=False, status=process.status)

    async def _fault_of_mark(self) -> str:
        """Compare the mark in the store with the mark in the directory, and make sure that both exist. Return the
        fault, or "" if there is no fault."""
        if self._mark_key is None:
            return ""
        kept, client = self._directory.marks().get(self._mark_key), self._redis()
        try:
            if kept is None:
                # Create the mark in the store before the mark in the directory. If the directory has a mark, the
                # store must have the same mark.
                await client.set(self._mark_key, secrets.token_hex(16), nx=True)
            answer: Any = await client.get(self._mark_key)
        except (RedisError, OSError) as error:
            raise StoreUnavailableError(f"the store does not take the mark of its data: {error}") from error
        found = None if answer is None else str(answer.decode())
        if kept is not None and found != kept:
            return (
                "the store is empty or has the data of another store: it lacks the mark in the file "
                f"`generation`. {BEGIN_ANEW}"
            )
        if kept is None and found is not None:
            try:
                self._directory.keep_mark(self._mark_key, found)
            except OSError as error:  # for example, a full disk: the next start writes the mark
                logger.warning("the mark of the data was not kept: %s", error)
        return ""

    async def _watch(self) -> None:
        """Start the server again each time it ends."""
        backoff_s = FIRST_BACKOFF_S
        ending: EndDiagnosis | None = None
        while (process := self._process) is not None:
            if ending is None:
                served_since = time.monotonic()
                await process.ended.wait()
                await self._disconnect()
                ending = diagnose(
                    self._directory.log, process.log_start_byte, was_serving=True, status=process.status
                )
                if time.monotonic() - served_since > STEADY_AFTER_S:
                    backoff_s = FIRST_BACKOFF_S
            self._set(ending.cause, None, self._advice(ending))
            logger.error("the embedded Valkey has ended; again in %.1f s: %s", backoff_s, self._status.detail)
            await asyncio.sleep(backoff_s)
            backoff_s = min(LAST_BACKOFF_S, backoff_s * 2)
            self._status = replace(self._status, restarts=self._status.restarts + 1)
            leaves_doubt = ending.leaves_doubt
            try:
                if leaves_doubt:
                    self._directory.doubt()
                # If the server does not start, `ending` has the reason. The next round reports the reason and
                # tries again.
                ending = await self._bring_up()
            except OSError as error:
                cause: Cause = "disk_full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "crashed"
                ending = EndDiagnosis(cause, str(error), leaves_doubt=leaves_doubt)

    async def _end(self, process: ServerProcess, client: Redis | None = None) -> None:
        """Shut the server down normally if possible. Under `appendfsync always`, even SIGKILL loses nothing that was
        accepted."""
        with contextlib.suppress(RedisError, OSError):
            await (client or self._redis()).shutdown(nosave=True)
            await process.wait(SHUTDOWN_WITHIN_S)
        for number, patience_s in (
            (signal.SIGTERM, TERMINATE_WITHIN_S),
            (signal.SIGKILL, TERMINATE_WITHIN_S),
        ):
            if process.ended.is_set():
                return
            process.send(number)
            await process.wait(patience_s)
        if not process.ended.is_set():
            logger.error("the Valkey of %s (process %d) cannot be ended", self._directory.path, process.pid)
            process.forget()

    def _advice(self, ending: EndDiagnosis) -> str:
        return advice(ending, self._directory.path, self._server_binary())

    def _connect(self, socket: Path) -> Redis:
        return Redis(
            unix_socket_path=str(socket),
            password=self._directory.password(),
            socket_timeout=CALL_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            max_connections=2,
        )

    def _set(self, state: State, pid: int | None = None, detail: str = "") -> None:
        self._status = replace(self._status, state=state, pid=pid, detail=detail)
        self.on_change()

    async def _disconnect(self) -> None:
        """Drop the connections to a server that has ended. An idle connection may hold an error. Its next user
        would mistake the error for a fault of the new server."""
        with contextlib.suppress(RedisError, OSError):
            await self._redis().connection_pool.disconnect()

    def _redis(self) -> Redis:
        if self._client is None:
            raise StoreUnavailableError("the embedded store is not started")
        return self._client

    def _server_binary(self) -> Path:
        if self._binary is None:
            self._binary = wheel_binary()
        return self._binary
