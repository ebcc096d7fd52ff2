"""The processes of the site: a master with its store, the web server, workers, and a small site outside."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from examples.stdlib.system import Child, ending, start

_MANAGE: Final = ("-m", "examples.microblog.manage")
# The number of threads of the web server, and of jobs that each worker runs at a time.
_THREADS: Final = 8
# How long the processes may take to start; workers start slowly if other programs keep the machine busy.
READY_WITHIN_S: Final = 600.0
# Reuse this client: a new one for each call would read the certificates of all authorities.
_HTTP: Final = httpx.Client(timeout=10.0, trust_env=False)
# The nice values of workers and master. On a shared machine, people's requests take precedence over jobs, and over the
# master: a request does not need the master.
_WORKERS_NICE: Final = 10
_MASTER_NICE: Final = 5
# How many jobs write to feeds at a time. With more jobs, people's posts wait longer for a CPU and for SQLite, which has
# one writer at a time. With one job per CPU, posts wait no longer than without jobs.
FEEDS_AT_ONCE: Final = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class Site:
    """Addresses of a running site."""

    url: str
    master_url: str
    outside_url: str
    children: tuple[Child, ...]

    def check_alive(self) -> None:
        """Raise SystemExit if one of the processes has ended."""
        for child in self.children:
            child.check_alive()


@contextlib.contextmanager
def running_site(
    directory: Path,
    database: str,
    ports: tuple[int, int, int],
    *,
    workers: int = 2,
    followers: int,
    at_once: int | None = FEEDS_AT_ONCE,
) -> Iterator[Site]:
    """Make the tables, fill them, and start everything.

    `ports`: ports of the site, the master and the outside site. `at_once`: maximum number of feeds that are written at
    a time. None: as many as the workers can write."""
    port, master_port, outside_port = ports
    url, master_url, outside_url = (f"http://127.0.0.1:{one}" for one in ports)
    env = environment(database, master_url, outside_url)
    data = directory / "data"
    with ending(data) as children:

        def begin(name: str, *arguments: str, nice: int = 0) -> Child:
            child = start(name, directory, *arguments, env=env, nice=nice)
            children.append(child)
            return child

        master = begin(
            "master",
            *("-m", "jqmaster", "serve", "--port", str(master_port), "--data-dir", str(data)),
            nice=_MASTER_NICE,
        )
        outside = begin("outside", "-m", "examples.microblog.outside", str(outside_port))
        _run_to_end(begin("migrate", *_MANAGE, "migrate"), children)
        _run_to_end(begin("populate", *_MANAGE, "populate", "--followers", str(followers)), children)
        server = ("-m", "gunicorn", "examples.microblog.wsgi", "--bind", f"127.0.0.1:{port}")
        web = begin("site", *server, "--threads", str(_THREADS))
        _until(lambda: _answers(f"{master_url}/readyz"), master)
        if at_once is not None:
            limit_feeds(master_url, at_once)
        for number in range(workers):
            options = ("--no-reload", "--port", "0", "--max-jobs", str(_THREADS))
            worker = begin(f"worker {number + 1}", *_MANAGE, "jq_worker", *options, nice=_WORKERS_NICE)
        _until(lambda: _answers(f"{url}/"), web)
        _until(lambda: _registered(master_url) == workers, worker)
        site = Site(url, master_url, outside_url, (master, outside, *children[-workers - 1 :]))
        try:
            yield site
        except Exception:
            # If a process has ended, show its log, which tells why the call failed.
            site.check_alive()
            raise


def limit_feeds(master_url: str, at_once: int) -> None:
    """Create the constraint `feeds`: at most this many feeds are written at a time. It takes effect at once, even for a
    post that is being distributed. Operators can change it in the web UI, or with `jqmaster constraints put`."""
    matcher = {"field": "name", "op": "eq", "value": "examples.microblog.tasks.insert_into_feed"}
    answer = httpx.put(
        f"{master_url}/api/constraints/feeds",
        json={"matcher": matcher, "concurrency": at_once},
        trust_env=False,
        timeout=10,
    )
    answer.raise_for_status()


def environment(database: str, master_url: str, outside_url: str) -> dict[str, str]:
    """Return the variables that `examples.microblog.settings` reads."""
    return {
        "DJANGO_SETTINGS_MODULE": "examples.microblog.settings",
        "MICROBLOG_DATABASE": database,
        "MICROBLOG_OUTSIDE": f"{outside_url}/",
        "JQMASTER_URL": master_url,
    }


def _run_to_end(child: Child, children: list[Child]) -> None:
    if child.process.wait():
        child.check_alive()
    children.remove(child)


def _answers(url: str) -> bool:
    return _HTTP.get(url).status_code == 200


def _registered(master_url: str) -> int:
    answer = _HTTP.get(f"{master_url}/api/workers", headers={"Accept": "application/json"})
    return len(answer.json()["workers"])


def _until(is_so: Callable[[], bool], child: Child) -> None:
    deadline_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline_s:
        child.check_alive()
        with contextlib.suppress(httpx.HTTPError):
            if is_so():
                return
        time.sleep(0.1)
    raise SystemExit(
        f"the {child.name} is not ready after {READY_WITHIN_S:.0f} s; is the machine busy?\n{child.log_end()}"
    )
