"""Real processes: masters and workers as users start them, killed as in production failures."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import psutil

from tests.support import prepared
from tests.support.master import NO_TLS, QUICK
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]


class Process:
    """One child with its output in a file. Signals only ever go to its own process ID."""

    python = sys.executable
    cwd = ROOT
    # A command of this installation need not import all modules again.
    is_prepared = True

    def __init__(self, arguments: list[str], log: Path, **environment: str) -> None:
        self._arguments = arguments
        self._environment = environment
        self.log = log
        self.popen: subprocess.Popen[bytes] | prepared.Prepared | None = None

    def with_environment(self, **environment: str) -> None:
        self._environment |= environment

    def start(self) -> None:
        environment = {**os.environ, **self._environment}
        with self.log.open("ab") as log:
            if (
                self.is_prepared
                and self.python == sys.executable
                and prepared.is_preparable(self._arguments, environment)
            ):
                self.popen = prepared.start(
                    self._arguments, stdout=log.fileno(), stderr=log.fileno(), cwd=self.cwd, env=environment
                )
                return
            self.popen = subprocess.Popen(
                [self.python, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.cwd,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self.popen
        return self.popen.pid

    def kill(self) -> None:
        """Send SIGKILL and wait for its end."""
        assert self.popen
        self.popen.kill()
        self.popen.wait()

    def terminate(self, timeout_s: float = 30) -> int:
        assert self.popen
        if self.popen.poll() is None:
            self.popen.terminate()
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"{self._arguments} did not end within {timeout_s} s: {self.log.read_text()[-2000:]}"
            ) from None

    def signal(self, number: signal.Signals) -> None:
        assert self.popen
        self.popen.send_signal(number)


class MasterProcess(Process):
    """`jqmaster serve` with short leases, on its own Valkey unless `redis_url` is given."""

    def __init__(
        self, directory: Path, redis_url: str | None = None, port: int | None = None, **settings: object
    ) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = directory / "data"
        self.has_own_store = redis_url is None
        values = {**QUICK, **settings, "port": self.port, "data_dir": self.data_dir}
        if redis_url:
            values["redis_url"] = redis_url
        environment = {f"JQMASTER_{name.upper()}": str(value) for name, value in values.items()}
        super().__init__(["-m", "jqmaster", "serve"], directory / "master.log", **environment)

    def start(self) -> None:
        super().start()
        self.wait_until_ready()

    def wait_until_ready(self, timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert self.popen
            if self.popen.poll() is not None:
                raise AssertionError(
                    f"the master ended with {self.popen.returncode}: {self.log.read_text()[-3000:]}"
                )
            with contextlib.suppress(httpx.HTTPError):
                if (
                    httpx.get(f"{self.url}/readyz", timeout=2, trust_env=False, verify=NO_TLS).status_code
                    == 200
                ):
                    return
            time.sleep(0.05)
        raise AssertionError(f"the master is not ready: {self.log.read_text()[-3000:]}")

    def troubles_of_store(self) -> list[str]:
        """Return the findings of `jqmaster fsck` while this master runs."""
        command = ["-m", "jqmaster", "fsck", "--data-dir", str(self.data_dir)]
        try:
            done = prepared.run(command, cwd=ROOT, env={**os.environ, **self._environment})
        except subprocess.TimeoutExpired as error:
            return [str(error)]
        if done.returncode == 0:
            return []
        return [f"fsck ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}"]

    def store_pid(self) -> int:
        """Return the process ID of the embedded Valkey in this data directory."""
        for process in psutil.process_iter(["name", "cmdline", "cwd"]):
            with contextlib.suppress(psutil.Error):
                if "valkey" in process.info["name"] and str(self.data_dir) in " ".join(
                    [
                        *(process.info["cmdline"] or []),
                        process.info["cwd"] or "",
                        *[f.path for f in process.open_files()],
                    ]
                ):
                    return int(process.pid)
        raise AssertionError("no Valkey runs on this data directory")

    def kill_store(self) -> None:
        pid = self.store_pid()
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(10)


class WorkerProcess(Process):
    """`jqmaster worker tests.support.workers:worker`; each handler writes its starts and ends to `journal`."""

    def __init__(
        self,
        directory: Path,
        master_url: str | Sequence[str],
        *,
        number: int = 0,
        max_jobs: int = 50,
        port: int = 0,
        pull: bool = False,
    ) -> None:
        urls = [master_url] if isinstance(master_url, str) else master_url
        self.journal = directory / f"journal-{number}"
        super().__init__(
            [
                "-m",
                "jqmaster",
                "worker",
                "tests.support.workers:worker",
                *[part for url in urls for part in ("--master", url)],
                *(["--pull"] if pull else ["--port", str(port)]),
            ],
            directory / f"worker-{number}.log",
            JOURNAL=str(self.journal),
            MAX_JOBS=str(max_jobs),
        )

    def run_handlers(self, module: str, **environment: str) -> None:
        """Run other handlers than those of tests/support/workers.py."""
        self._arguments[self._arguments.index("worker") + 1] = module
        self._environment |= environment

    def events(self) -> Iterator[tuple[str, str, int, float]]:
        """Yield (start or end, job ID, attempt, monotonic seconds), as written by the handlers."""
        if self.journal.exists():
            # A handler may still be writing the last line.
            for line in self.journal.read_text().split("\n")[:-1]:
                what, job_id, attempt, at_s = line.split()
                yield what, job_id, int(attempt), float(at_s)


@contextlib.contextmanager
def running(*processes: Process) -> Iterator[None]:
    """Start them in order, and end them in reverse whatever happens.

    After a successful test, each must end in time when asked, and the store of each live master must be sound.
    """
    failure: BaseException | None = None
    try:
        for process in processes:
            process.start()
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        troubles: list[str] = []
        for process in reversed(processes):
            if process.popen and process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                if failure is None and isinstance(process, MasterProcess) and process.has_own_store:
                    troubles += process.troubles_of_store()
                try:
                    process.terminate()
                except AssertionError as error:
                    troubles.append(str(error))
        if failure is not None:
            # Report the test's own error, and attach these to it.
            for trouble in troubles:
                failure.add_note(trouble)
        elif troubles:
            raise AssertionError("\n".join(troubles))
