"""Statistics of the queue: current state and job names."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.console.state_words import state_word

SpanOption = Annotated[str, typer.Option(help="Period up to now: 1h, 3h, 6h, 24h, 7d or 30d.")]
LimitOption = Annotated[int, typer.Option(min=1, help="Maximum number of lines to print.")]


def stats(http: MasterSession) -> None:
    """Show the current state of the queue: counts, rates, workers and store."""
    now = http.get("/api/stats")
    if http.says_json(now):
        return
    output.show_fields(gauges(now))


def gauges(now: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return the lines of `jqmaster stats` as names and values, from the answer of `/api/stats`."""
    workers, masters, store = now["workers"], now["masters"], now["store"]
    return [
        *((state, count) for state, count in now["counts"].items()),
        ("oldest wait", duration(now["oldest_wait_ms"])),
        *((f"{word}/s", rate) for word, rate in now["rates"].items() if rate),
        ("workers", _counts_text(workers, "fresh", "stale", "draining", "detached")),
        ("slots", f"{workers['busy']} of {workers['max_jobs']} taken"),
        ("masters", _counts_text(masters, "fresh", "stale")),
        ("leader", masters["leader_id"] or "none"),
        ("store", f"{store['server']}, {store['durability']}, answers in {store['latency_ms']} ms"),
        ("memory", _memory(store)),
        ("faults", "; ".join((*store["faults"], *now.get("duty_faults", ())))),
    ]


def names(
    http: MasterSession,
    *,
    search: Annotated[
        str | None, typer.Option("-q", "--search", "--q", help="Show names that contain this text.")
    ] = None,
    span: SpanOption = "1h",
    sort: Annotated[str, typer.Option(help="Sort key: name, pushed, failed or ready.")] = "name",
    limit: LimitOption = 50,
) -> None:
    """List job names with their counts and times.

    If a master is killed, up to a second of these counts is lost. No jobs are lost.
    """
    query = {"q": search, "span": span, "sort": sort}
    http.show_list(
        http.listed("/api/names", "names", query=query, limit=limit),
        ("NAME", "READY", "PUSHED", "SUCCEEDED", "DISCARDED", "FAILED", "RETRIED", "WAIT P50", "P95", "RUN P50",
         "P95"),
        lambda n: (n["name"], n["ready"], n["pushed"], n["succeeded"], n.get("discarded", 0), n["failed"],
                   n["retried"],
                   *_middle_and_most(n["wait"]), *_middle_and_most(n["run"])),
    )  # fmt: skip


def remove_contracts(
    http: MasterSession, name: Annotated[str, typer.Argument(metavar="NAME", help="Job name.")]
) -> None:
    """Remove the contracts of a name, so that masters stop checking its arguments.

    The next worker that registers with a contract for the name sets a new contract.
    """
    http.call("DELETE", path_of("/api/contracts", name))
    http.say({"name": name, "contracts_removed": True}, f"{name}  contracts removed")


def _middle_and_most(distribution: Mapping[str, int] | None) -> tuple[str, str]:
    if distribution is None:
        return "", ""
    return duration(distribution["p50_ms"]), duration(distribution["p95_ms"])


def duration(ms: int | None) -> str:
    """Format milliseconds for people; empty for None."""
    if ms is None:
        return ""
    return f"{ms} ms" if ms < 10_000 else f"{ms / 1000:.0f} s"


def _counts_text(counts: Mapping[str, Any], *states: str) -> str:
    return ", ".join(f"{counts[state]} {state_word(state)}" for state in states if counts[state]) or "none"


def _memory(store: Mapping[str, Any]) -> str:
    used = f"{store['used_memory_bytes'] / 2**20:.0f} MiB"
    most = store["max_memory_bytes"]
    return used if most is None else f"{used} of {most / 2**20:.0f} MiB"
