"""Measure HTTP targets and the Fireworq gateway: pushes and deliveries a second, and the master's memory while
thousands of requests hang.

`python -m benchmarks.targets PORT` runs the endpoint. It listens on a hundred loopback addresses. These are its paths:

* `/ok` answers at once, and so does `/success`, in the form of Fireworq's endpoints.
* `/hang` never answers.
* `/drip` sends one byte a second.
"""

import asyncio
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psutil

from benchmarks.load import ROOT, System, free_port, running_system
from benchmarks.scenario import Figures, Scenario, waits

PAGE: Final = 500
WITHIN_S: Final = 600.0
_ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_SUCCESS: Final = b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"status":"success"}'
# The beginning of an answer that does not end before the benchmark does.
_DRIP: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
# The number of files and the MiB of memory that a master may need besides those for its deliveries.
_OTHER_FILES: Final = 256
_OTHER_MIB: Final = 512
_MAX_HOSTS: Final = 100
_GATEWAY: Final = {"fireworq_prefix": "/fireworq"}
_NETWORKS: Final = "127.0.0.0/8"
_PARTS: Final = ("master", "store")


class _Endpoint(asyncio.Protocol):
    """Answers each request when its head has arrived. The bodies of this load are short, and arrive with the head."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"POST /success"):
            self._transport.write(_SUCCESS)
        elif data.startswith(b"POST /drip"):
            self._transport.write(_DRIP)
            self._drip()
        elif not data.startswith(b"POST /hang"):
            self._transport.write(_ANSWER)

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"1")
            asyncio.get_running_loop().call_later(1.0, self._drip)


def deliveries(*, jobs: int = 10_000, running: int = 200, masters: int = 1) -> Figures:
    """Measure deliveries a second to one endpoint over kept connections, and the CPU time of master and store for each,
    in µs."""
    with _endpoint() as url, _system(masters=masters) as system:
        _enqueue(system, [{"order": 42}] * jobs)
        return _measured(system, jobs, lambda: _put(system, f"{url}/ok", max_running=running))


def gateway(*, jobs: int = 5_000, running: int = 200, connections: int = 16, masters: int = 1) -> Figures:
    """Measure pushes a second through the Fireworq gateway to a paused queue, and then the deliveries of the queue."""
    with _endpoint() as url, _system(masters=masters, **_GATEWAY) as system:
        prefix, pause = f"{system.url}/fireworq", f"{system.url}/api/constraints/pause"
        system.http.put(f"{prefix}/queue/load", json={"max_workers": running}).raise_for_status()
        system.http.put(f"{prefix}/routing/load", json={"queue_name": "load"}).raise_for_status()
        matcher = {"field": "name", "op": "eq", "value": "fireworq/load"}
        system.http.put(pause, json={"matcher": matcher, "paused": True}).raise_for_status()
        before = system.cpu_s()
        told = system.push(
            "gateway",
            count=jobs,
            connections=connections,
            category="load",
            job_url=f"{url}/success",
            within_s=WITHIN_S,
        )
        after = system.cpu_s()
        delivered = _measured(system, jobs, lambda: system.http.delete(pause).raise_for_status())
        return {
            "pushes_per_s": jobs / told["seconds"],
            **{f"push_{name}": value for name, value in waits(told).items()},
            **{f"push_cpu_us_{part}": (after[part] - before[part]) / jobs * 1e6 for part in _PARTS},
            **{f"delivery_{name}": value for name, value in delivered.items()},
        }


def _measured(system: System, jobs: int, begin: Callable[[], object]) -> Figures:
    """Call `begin`, which starts deliveries of waiting jobs. Return the deliveries a second, and the CPU time of master
    and store for each, in µs."""
    before, began_s = system.cpu_s(), time.monotonic()
    begin()
    _until(lambda: system.counts()["succeeded"] >= jobs)
    seconds, after = time.monotonic() - began_s, system.cpu_s()
    spent = {f"cpu_us_{part}": (after[part] - before[part]) / jobs * 1e6 for part in _PARTS}
    return {"per_s": jobs / seconds, **spent}


def hanging(
    *, endpoints: int = 5_000, for_s: float = 20.0, answer: str = "hang", most_kib_each: float = 40.0
) -> Figures:
    """Measure the memory of the master for this many requests to a hundred hosts. The hosts give no answer (`hang`), or
    send one byte a second (`drip`). The figures are the KiB for each request, the growth over `for_s`, and how long a
    job to another endpoint takes meanwhile.

    The master may open as many files as it needs, and may use `most_kib_each` of memory for each request. If it needs
    more, it fails. This limit protects the machine.
    """
    with _endpoint() as url, _system(masters=1) as system:
        before = _rss(system)
        most_bytes = int((before + endpoints * most_kib_each + _OTHER_MIB * 1024) * 1024)
        for process in system.master_processes():
            process.rlimit(psutil.RLIMIT_NOFILE, (endpoints + _OTHER_FILES,) * 2)
            process.rlimit(psutil.RLIMIT_DATA, (process.memory_info().data + most_bytes,) * 2)
        target = {
            "names": ["deliver"],
            "url": {"from": "argument.url"},
            "allow_hosts": _hosts(),
            "max_running": endpoints,
        }
        system.http.put(f"{system.url}/api/targets/hanging", json=target).raise_for_status()
        _put(system, f"{url}/ok", max_running=1, name="other")
        port = url.rpartition(":")[2]
        urls = [f"http://{host}:{port}/{answer}" for host in _hosts()]
        _enqueue(system, [{"url": urls[number % len(urls)]} for number in range(endpoints)])
        _until(lambda: system.counts()["running"] >= endpoints)
        time.sleep(for_s / 2)
        first, took_s = _rss(system), []
        ends_at_s = time.monotonic() + for_s
        while time.monotonic() < ends_at_s:
            began_s, done = time.monotonic(), system.counts()["succeeded"]
            _enqueue(system, [{}], "other")
            _until(lambda done=done: system.counts()["succeeded"] > done, 0.005)
            took_s.append(time.monotonic() - began_s)
            time.sleep(0.5)
        assert system.counts()["running"] >= endpoints, "requests ended"
        return {
            "kib_each": (first - before) / endpoints,
            "growth_kib": _rss(system) - first,
            "files": float(max(process.num_fds() for process in system.master_processes())),
            "other_job_ms": statistics.median(took_s) * 1000,
        }


def _rss(system: System) -> float:
    return float(sum(master.memory_info().rss for master in system.master_processes())) / 1024


@contextmanager
def _system(*, masters: int, **settings: Any) -> Iterator[System]:
    with running_system(
        workers=0, masters=masters, allowed_webhook_networks=_NETWORKS, retention_succeeded_s=3600, **settings
    ) as system:
        yield system


@contextmanager
def _endpoint() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.targets", str(port)], cwd=ROOT)
    try:
        time.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _hosts() -> list[str]:
    return [f"127.0.1.{number + 1}" for number in range(_MAX_HOSTS)]


def _put(system: System, url: str, *, max_running: int, name: str = "deliver") -> None:
    target = {"names": [name], "url": url, "max_running": max_running}
    system.http.put(f"{system.url}/api/targets/{name}", json=target).raise_for_status()


def _enqueue(system: System, arguments: Sequence[object], name: str = "deliver") -> None:
    for start in range(0, len(arguments), PAGE):
        jobs = [
            {"name": name, "argument": argument, "timeout": 3600}
            for argument in arguments[start : start + PAGE]
        ]
        system.http.post(f"{system.url}/api/jobs/bulk", json={"jobs": jobs}).raise_for_status()


def _until(is_true: Callable[[], bool], look_s: float = 0.1) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not is_true():
        if time.monotonic() > deadline_s:
            raise SystemExit("the deliveries did not reach the expected state in time")
        time.sleep(look_s)


async def _serve(port: int) -> None:
    addresses = ["127.0.0.1", *_hosts()]
    server = await asyncio.get_running_loop().create_server(_Endpoint, addresses, port, backlog=4096)
    await server.serve_forever()


SCENARIOS: Final = [
    Scenario("deliveries", deliveries, params=[{}, {"masters": 2}], quick={"jobs": 200}, group="targets"),
    Scenario("gateway", gateway, quick={"jobs": 200}, group="targets"),
    Scenario(
        "hanging_endpoints",
        hanging,
        params=[{"answer": "hang"}, {"answer": "drip"}],
        quick={"endpoints": 20, "for_s": 1.0},
        group="targets",
    ),
]


if __name__ == "__main__":
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_serve(int(sys.argv[1])))
