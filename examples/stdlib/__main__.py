"""Start a master and a worker, let them analyse the standard library, and show the work while it is done."""

import argparse
import asyncio
import contextlib
import json
import signal
import socket
import sys
import sysconfig
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from examples.stdlib.analysis import Analysis, Summary
from examples.stdlib.system import System, running_system
from examples.stdlib.tasks import analyse_file, connect, do_nothing, summarise_files
from worker_sdk import JobHandle, NoResultError, NotFinished, configure
from worker_sdk.transport.standard_streams import escape_unencodable

STATES = ("scheduled", "ready", "retrying", "running", "succeeded", "discarded", "failed")
FINISH_WITHIN_S = 600.0
# The timeout of a call. It is long, because the machine may be busy.
CALL_TIMEOUT_S = 60.0
BURST = 1000
NOT_PYTHON = ("SyntaxError", "IndentationError", "TabError")


def main() -> None:
    escape_unencodable()
    parser = argparse.ArgumentParser(prog="examples.stdlib", description=__doc__)
    parser.add_argument(
        "--once", action="store_true", help="end by itself; exit status 0 only if all came out as expected"
    )
    parser.add_argument(
        "--port", type=int, default=8080, help="port of the master; a free one if it is taken"
    )
    options = parser.parse_args()
    # Restore the effect of SIGINT. A shell makes its background processes ignore SIGINT, but master and worker react to
    # it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = asyncio.run(show(options.port, once=options.once))
    except KeyboardInterrupt:
        # Without --once, Ctrl-C is the usual way to end.
        status = 128 + signal.SIGINT if options.once else 0
    except asyncio.CancelledError:
        status = 128 + signal.SIGTERM
    sys.exit(status)


async def show(port: int, *, once: bool) -> int:
    console = Console()
    if task := asyncio.current_task():
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Under nohup, SIGHUP is ignored. Keep it ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with tempfile.TemporaryDirectory(prefix="jqmaster-example-", ignore_cleanup_errors=True) as directory:
        chosen = free_port(port)
        taken = "" if chosen == port else f" (port {port} is taken)"
        console.print("Starting a master with its store, and a worker …")
        async with running_system(Path(directory), chosen) as system:
            console.print(f"Web UI: [bold]{system.url}/[/]{taken}", highlight=False, soft_wrap=True)
            faults = await work(system, console)
            for fault in faults:
                console.print(f"[red]not as expected:[/] {fault}")
            if not faults:
                console.print("All jobs are done.")
            if not once:
                url = system.url
                path = str(Path(contextlib.__file__))
                job = {"name": analyse_file.name, "argument": {"path": path}, "keep_result": True}
                console.print(
                    f"\nThe web UI stays at [bold]{url}/[/] until Ctrl-C. "
                    "Try, in another terminal:\n\n"
                    f"  curl {url}/api/jobs -H 'Content-Type: application/json' \\\n"
                    f"    -d '{json.dumps(job)}'\n"
                    f"  curl '{url}/api/jobs/ID/result?wait=5' -H 'Accept: application/json'\n",
                    soft_wrap=True,
                    highlight=False,
                )
                await asyncio.Event().wait()
    return 1 if faults else 0


async def work(system: System, console: Console) -> list[str]:
    """Enqueue jobs, watch them, and return the deviations from the expected outcome."""
    configure(url=system.url, timeout_s=CALL_TIMEOUT_S, max_wait_s=CALL_TIMEOUT_S)
    files = list(source_files())
    story: deque[str] = deque(maxlen=8)
    started_s = time.monotonic()
    handles = await analyse_file.amany(analyse_file.to_job(str(path)) for path in files)
    story.append(
        f"enqueued {len(handles)} files in {time.monotonic() - started_s:.2f} s; the worker parses each"
    )
    flaky = await connect.aenqueue("archive-7")
    urgent = await analyse_file.using(priority=-10).aenqueue(contextlib.__file__)
    summary = await summarise_files.aenqueue([handle.id for handle in handles])
    story.append(
        "enqueued an urgent file (priority -10), an archive that fails twice, and the summary of it all"
    )
    special: dict[str, JobHandle[Any]] = {"archive": flaky, "urgent file": urgent, "summary": summary}
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        await watch(system, story, live, len(handles), special)
        faults = await burst(system, story, live)
    return faults + await verify(
        system, console, dict(zip(files, handles, strict=True)), flaky, urgent, summary
    )


async def watch(
    system: System, story: deque[str], live: Live, total: int, special: Mapping[str, JobHandle[Any]]
) -> None:
    """Show counts, throughput and the states of the special jobs until all jobs are over."""
    told: dict[str, Any] = {}
    began_s = time.monotonic()
    async with observer(system) as client:
        while time.monotonic() - began_s < FINISH_WITHIN_S:
            system.check_alive()
            counts = (await client.get("/api/jobs?limit=1")).json()["counts"]
            for label, handle in special.items():
                job = await seen(handle)
                now = (job["state"], job["failures"])
                if told.get(label) != now:
                    told[label] = now
                    story.append(tell(label, job, counts))
            done = over(counts)
            rate = done / (time.monotonic() - began_s)
            line = f"{done} done, {rate:.0f} files/s"
            live.update(picture(counts, done / total, line, story))
            if done >= total + len(special):
                return
            await asyncio.sleep(0.2)


async def burst(system: System, story: deque[str], live: Live) -> list[str]:
    """Show the speed of the queue itself, with jobs that do nothing, after all other jobs are over. Return the
    deviations from the expected outcome."""
    story.append(f"and now {BURST:,} jobs that do nothing: how fast is the queue itself?")
    async with observer(system) as client:
        before = over((await client.get("/api/jobs?limit=1")).json()["counts"])
        began_s = time.monotonic()
        await do_nothing.amany(do_nothing.to_job() for _ in range(BURST))
        enqueued_s = time.monotonic() - began_s
        done = 0
        while done < BURST:
            system.check_alive()
            counts = (await client.get("/api/jobs?limit=1")).json()["counts"]
            done, took_s = over(counts) - before, time.monotonic() - began_s
            if took_s > FINISH_WITHIN_S:
                return [f"after {took_s:.0f} s, {done} of {BURST:,} jobs that do nothing are done"]
            live.update(picture(counts, done / BURST, f"{done} empty jobs", story))
            await asyncio.sleep(0.02)
    story.append(f"all enqueued after {enqueued_s:.2f} s, and done after {took_s:.2f} s")
    live.update(
        picture(counts, 1.0, f"{BURST:,} jobs in {took_s:.2f} s: {BURST / took_s:,.0f} jobs/s", story)
    )
    return []


def observer(system: System) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=system.url,
        headers={"Accept": "application/json"},
        trust_env=False,
        timeout=CALL_TIMEOUT_S,
    )


def over(counts: Mapping[str, int]) -> int:
    """Return how many jobs are over."""
    return sum(counts[state] for state in ("succeeded", "discarded", "failed"))


async def seen(handle: JobHandle[Any]) -> Mapping[str, Any]:
    """Fetch the current job from a master, and return it."""
    job = (await handle.arefresh()).job
    assert job is not None
    return job


def tell(label: str, job: Mapping[str, Any], counts: dict[str, int]) -> str:
    match job["state"]:
        case "retrying":
            return (
                f"{label}: failed {job['failures']}x ({job['attempts'][-1]['message']}), "
                f"again at {job['run_at'][11:23]}"
            )
        case "succeeded" if counts["ready"]:
            return f"{label}: done, while {counts['ready']} that came earlier still wait"
        case state:
            return f"{label}: {state}, attempt {job['attempt']}"


def picture(counts: Mapping[str, int], share: float, line: str, story: Iterable[str]) -> Panel:
    """Return the live view. `share`: the filled fraction of the bar. `line`: the text next to the bar."""
    table = Table(box=None, expand=True)
    for state in STATES:
        table.add_column(state, justify="right")
    table.add_row(*(str(counts[state]) for state in STATES))
    full = int(40 * min(1.0, share))
    lines = [
        Text(f"{'█' * full}{'░' * (40 - full)} {line}", style="green"),
        *(Text(event, style="dim") for event in story),
    ]
    return Panel(Group(table, *lines), title="jqmaster: the standard library, one job per file")


async def verify(
    system: System,
    console: Console,
    files: Mapping[Path, JobHandle[Analysis]],
    flaky: JobHandle[str],
    urgent: JobHandle[Analysis],
    summary: JobHandle[Summary],
) -> list[str]:
    """Print the summary, and return the deviations from the expected outcome. `files`: the jobs of the files."""
    done = await succeeded_jobs(system)
    jobs = {path: done.get(handle.id) or await seen(handle) for path, handle in files.items()}
    unparsable, faults = sort_out(jobs.items())
    for path in unparsable:
        console.print(f"not Python: {path}")
    succeeded = sum(job["state"] == "succeeded" for job in jobs.values())
    connected = await seen(flaky)
    if connected["state"] != "succeeded" or connected["failures"] != 2:
        faults.append(
            f"the archive job is {connected['state']} after {connected['failures']} failures, not 2"
        )
    ahead = await seen(urgent)
    last = list(jobs.values())[-1]
    if ahead["state"] != "succeeded" or ahead["started_at"] >= last["started_at"]:
        faults.append("the urgent file did not overtake the backlog")
    try:
        report = await summary.aget(timeout=30)
    except (NoResultError, NotFinished) as exc:
        return [*faults, f"there is no summary: {exc}"]
    if report.files != succeeded or report.files < 100:
        faults.append(f"the summary counts {report.files} files, {succeeded} succeeded")
    table = Table(
        title=f"{report.files} files, {report.lines:,} lines, {report.functions:,} functions, "
        f"{report.classes:,} classes"
    )
    table.add_column("longest files")
    table.add_column("most imported")
    table.add_column("most branches")
    for (file, lines), (module, count), (in_file, worst) in zip(
        report.longest, report.most_imported, report.most_branches, strict=True
    ):
        table.add_row(
            f"{file}  {lines:,}", f"{module}  {count}", f"{worst.function} in {in_file}  {worst.number}"
        )
    console.print("\n", table)
    return faults


async def succeeded_jobs(system: System) -> dict[str, Mapping[str, Any]]:
    """Return the succeeded `analyse_file` jobs by ID, in the form that lists of jobs have."""
    found: dict[str, Mapping[str, Any]] = {}
    query = {"name": analyse_file.name, "state": "succeeded", "limit": "200"}
    async with observer(system) as client:
        while True:
            page = (await client.get("/api/jobs", params=query)).json()
            found |= {job["id"]: job for job in page["jobs"]}
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]


def sort_out(jobs: Iterable[tuple[Path, Mapping[str, Any]]]) -> tuple[list[Path], list[str]]:
    """Return the files that do not parse, and texts about the faults of other analyses."""
    unparsable, faults = [], []
    for path, job in jobs:
        match job:
            case {"state": "succeeded"}:
                pass
            case {"state": "discarded", "attempts": [*_, {"error": {"type": kind}}]} if kind in NOT_PYTHON:
                unparsable.append(path)
            case {"state": "failed"}:
                faults.append(f"{path} failed: {job['attempts'][-1]['message']}")
            case {"state": state}:
                faults.append(f"{path} is {state}")
    return unparsable, faults


def source_files() -> Iterator[Path]:
    """Yield the files of this Python's standard library, without its tests."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).parts
        if not {"test", "tests", "site-packages", "lib2to3", "idlelib", "turtledemo", "__pycache__"} & set(
            parts
        ):
            yield path


def free_port(wanted: int) -> int:
    """Return the port `wanted`, or if it is taken, a port that the system chooses."""
    for port in (wanted, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise SystemExit("no port is free")


if __name__ == "__main__":
    main()
