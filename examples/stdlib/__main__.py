"""Starts a master and a worker, gives them the standard library to analyse, and shows the work as it is done."""

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from worker_sdk import Pusher

BACKLOG = "source.analyse"
STATES = ("scheduled", "ready", "retrying", "running", "succeeded", "failed")
FINISH_WITHIN_S = 180.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.stdlib", description=__doc__)
    parser.add_argument(
        "--once", action="store_true", help="end by itself; exit status 0 only if all came out as expected"
    )
    parser.add_argument(
        "--port", type=int, default=8080, help="port of the master; a free one if it is taken"
    )
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(show(options.port, once=options.once)))


async def show(port: int, *, once: bool) -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="jqmaster-example-") as directory:
        async with running_system(Path(directory), free_port(port)) as url:
            faults = await work(url, console)
            if not once:
                console.print(
                    f"\nThe master stays up at [bold]{url}[/] until Ctrl-C. Try, in another terminal:\n\n"
                    f"  curl {url}/api/jobs -H 'Content-Type: application/json' \\\n"
                    f"    -d '{json.dumps({'name': BACKLOG, 'argument': str(Path(contextlib.__file__)), 'keep_result': True})}'\n"
                    f"  curl '{url}/api/jobs/ID/result?wait=5' -H 'Accept: application/json'\n",
                    soft_wrap=True,
                    highlight=False,
                )
                await asyncio.Event().wait()
    for fault in faults:
        console.print(f"[red]not as expected:[/] {fault}")
    return 1 if faults else 0


@contextlib.asynccontextmanager
async def running_system(directory: Path, port: int) -> AsyncIterator[str]:
    """A master with its embedded Valkey, and one worker process: as in production, only smaller."""
    url = f"http://127.0.0.1:{port}"
    jqmaster = [sys.executable, "-m", "jqmaster"]
    log = (directory / "log").open("wb")
    processes = []
    try:
        for arguments in (
            ["serve", "--port", str(port), "--data-dir", str(directory / "data")],
            ["worker", "examples.stdlib.worker:worker", "--master", url],
        ):
            processes.append(subprocess.Popen([*jqmaster, *arguments], stdout=log, stderr=log))
            await until_it_answers(url, processes[-1], directory / "log")
        yield url
    finally:
        # The worker first: what it still runs it hands back to a master that lives.
        for process in reversed(processes):
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, 30)
            except subprocess.TimeoutExpired:
                process.kill()
        log.close()


async def until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(300):
            if process.poll() is not None:
                raise SystemExit(f"a process ended before it served:\n{log.read_text()}")
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get(f"{url}/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.1)
    raise SystemExit(f"the master did not become ready:\n{log.read_text()}")


async def work(url: str, console: Console) -> list[str]:
    """Enqueues, watches, and returns what was not as expected."""
    files = list(source_files())
    story: deque[str] = deque(maxlen=8)
    async with Pusher(url) as pusher:
        started_s = time.monotonic()
        ids = await pusher.enqueue_many(
            {"name": BACKLOG, "argument": str(path), "keep_result": True} for path in files
        )
        story.append(f"enqueued {len(ids)} files in {time.monotonic() - started_s:.2f} s")
        retry = {"base_s": 0.5, "factor": 2.0, "max_s": 5.0, "jitter": False}
        flaky = await pusher.enqueue("archive.connect", "archive-7", retry=retry, keep_result=True)
        urgent = await pusher.enqueue(BACKLOG, contextlib.__file__, priority=-10, keep_result=True)
        summary = await pusher.enqueue("source.summarise", ids, priority=10, keep_result=True, timeout=60)
        story.append(
            "enqueued an urgent file (priority -10), an archive that fails twice, and the summary of it all"
        )
        with Live(console=console, refresh_per_second=8, transient=False) as live:
            await watch(
                url,
                pusher,
                story,
                live,
                len(ids),
                {flaky: "archive", urgent: "urgent file", summary: "summary"},
            )
        return await verify(pusher, console, ids, flaky, urgent, summary)


async def watch(
    url: str, pusher: Pusher, story: deque[str], live: Live, total: int, special: dict[str, str]
) -> None:
    """Shows counts, throughput and what becomes of the special jobs until all of them are over."""
    told: dict[str, Any] = {}
    began_s = time.monotonic()
    async with httpx.AsyncClient(
        base_url=url, headers={"Accept": "application/json"}, trust_env=False
    ) as client:
        while time.monotonic() - began_s < FINISH_WITHIN_S:
            counts = (await client.get("/api/jobs?limit=1")).json()["counts"]
            for job_id, label in special.items():
                job = await pusher.status(job_id)
                now = (job["state"], job["failures"])
                if told.get(job_id) != now:
                    told[job_id] = now
                    story.append(tell(label, job, counts))
            done = counts["succeeded"] + counts["failed"]
            live.update(picture(counts, done, total, done / (time.monotonic() - began_s), story))
            if done >= total + len(special):
                return
            await asyncio.sleep(0.1)


def tell(label: str, job: dict[str, Any], counts: dict[str, int]) -> str:
    match job["state"]:
        case "retrying":
            return f"{label}: failed {job['failures']}x ({job['attempts'][-1]['message']}), again at {job['run_at'][11:23]}"
        case "succeeded" if counts["ready"]:
            return f"{label}: done, while {counts['ready']} that came earlier still wait"
        case state:
            return f"{label}: {state}, attempt {job['attempt']}"


def picture(counts: dict[str, int], done: int, total: int, rate: float, story: deque[str]) -> Panel:
    table = Table(box=None, expand=True)
    for state in STATES:
        table.add_column(state, justify="right")
    table.add_row(*(str(counts[state]) for state in STATES))
    bar = "█" * int(40 * min(1.0, done / total)) + "░" * (40 - int(40 * min(1.0, done / total)))
    lines = [
        Text(f"{bar} {done} done, {rate:.0f} jobs/s", style="green"),
        *(Text(line, style="dim") for line in story),
    ]
    return Panel(Group(table, *lines), title="jqmaster: the standard library, one job per file")


async def verify(
    pusher: Pusher, console: Console, ids: list[str], flaky: str, urgent: str, summary: str
) -> list[str]:
    """Prints the summary; returns what was not as expected."""
    faults = []
    states = [(await pusher.status(job_id))["state"] for job_id in ids]
    if unfinished := [state for state in states if state not in ("succeeded", "failed")]:
        faults.append(f"{len(unfinished)} files are not over")
    connected = await pusher.status(flaky)
    if connected["state"] != "succeeded" or connected["failures"] != 2:
        faults.append(
            f"the archive job is {connected['state']} after {connected['failures']} failures, not 2"
        )
    ahead = await pusher.status(urgent)
    last = await pusher.status(ids[-1])
    if ahead["state"] != "succeeded" or ahead["started_at"] >= last["started_at"]:
        faults.append("the urgent file did not overtake the backlog")
    result = await pusher.result(summary, wait=30)
    if not result or not result.is_success:
        return [*faults, f"there is no summary: {result}"]
    report = result.result
    if report["files"] != states.count("succeeded") or report["files"] < 100:
        faults.append(f"the summary counts {report['files']} files, {states.count('succeeded')} succeeded")
    table = Table(
        title=f"{report['files']} files, {report['lines']:,} lines, {report['functions']:,} functions, {report['classes']:,} classes"
    )
    table.add_column("longest files")
    table.add_column("most imported")
    table.add_column("most branches")
    for longest, imported, branchy in zip(
        report["longest"], report["most_imported"], report["most_branches"], strict=True
    ):
        table.add_row(
            f"{longest[0]}  {longest[1]:,}",
            f"{imported[0]}  {imported[1]}",
            f"{branchy[1]} in {branchy[0]}  {branchy[2]}",
        )
    console.print("\n", table)
    return faults


def source_files() -> Iterator[Path]:
    """The standard library of this Python without its tests."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).parts
        if not {"test", "tests", "site-packages", "lib2to3", "idlelib", "turtledemo", "__pycache__"} & set(
            parts
        ):
            yield path


def free_port(wanted: int) -> int:
    """`wanted`, or one that the system chooses where that is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise SystemExit("no port is free")


if __name__ == "__main__":
    main()
