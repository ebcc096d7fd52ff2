"""`jqmaster top`: watch the queue live in the terminal."""

import time
from typing import Annotated, Any

import typer

from jqmaster.cli.commands.stats import duration, gauges
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.console.output import escape_controls


def top(
    http: MasterSession,
    *,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two updates.")] = 1.0,
    names: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of names to show.")] = 15,
    once: Annotated[bool, typer.Option("--once", help="Print the state once and exit.")] = False,
) -> None:
    """Watch the queue live: counts, rates, workers and the busiest names. Ctrl-C exits."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if http.as_json or once or not console.is_terminal:
        now, busiest = _asked(http, names)
        if not http.says_json({"stats": now, "names": busiest}):
            console.print(_picture(now, busiest))
        return
    with Live(console=console, auto_refresh=False, screen=True) as live:
        try:
            while True:
                live.update(_picture(*_asked(http, names)), refresh=True)
                time.sleep(every)
        except KeyboardInterrupt:
            return


def _asked(http: MasterSession, most_names: int) -> tuple[Any, Any]:
    """Read the state of the queue and the busiest names from a master."""
    now = http.get("/api/stats")
    return now, http.get("/api/names", {"span": "1h", "sort": "ready", "limit": most_names})["names"]


def _picture(now: Any, busiest: Any) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    figures = Table(box=None, show_header=False, pad_edge=False)
    for name, value in gauges(now):
        if value not in (None, "", [], {}):
            figures.add_row(Text(name, style="dim"), Text(escape_controls(value)))
    table = Table(box=None, pad_edge=False, title_justify="left")
    for column in ("NAME", "READY", "PUSHED 1h", "FAILED 1h", "WAIT P95", "RUN P95"):
        table.add_column(column, justify="left" if column == "NAME" else "right")
    for one in busiest:
        waits, runs = one["wait"], one["run"]
        table.add_row(
            Text(escape_controls(one["name"])),
            *(str(one[field]) for field in ("ready", "pushed", "failed")),
            duration(waits and waits["p95_ms"]),
            duration(runs and runs["p95_ms"]),
        )
    return Group(figures, Text(), table)
