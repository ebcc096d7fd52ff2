"""Output of commands: JSON lines for programs, tables for people. Untrusted text is made inert first."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from worker_sdk.transport import standard_streams

escape_controls = standard_streams.escape_controls


def say(text: object) -> None:
    print(escape_controls(text))


def echo(text: str, *, is_error: bool = False, end: str = "\n") -> None:
    """Print text at once. Unlike `typer.echo`, this escapes characters that the encoding of the stream lacks."""
    print(text, file=sys.stderr if is_error else sys.stdout, end=end, flush=True)


def say_json(value: Any) -> None:
    """Print the value as one line of JSON."""
    print(_inert_json(json.dumps(value, ensure_ascii=_is_narrow(), separators=(",", ":"))))


def show_value(value: Any) -> None:
    """Print a value that somebody wrote as indented JSON."""
    print(_inert_json(json.dumps(value, ensure_ascii=_is_narrow(), indent=2)))


def _is_narrow() -> bool:
    """Return whether the encoding of standard output lacks some characters. JSON output must then escape them itself to
    stay JSON."""
    return sys.stdout.encoding.lower() not in ("utf-8", "utf8")


def _inert_json(text: str) -> str:
    """Return the same JSON with control characters in its strings escaped."""
    return standard_streams.ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=None, pad_edge=False, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Pass text, not markup: a job may be named [red].
        table.add_row(*(Text("" if cell is None else escape_controls(cell)) for cell in row))
    # A pipe gets whole lines; only a terminal has a width.
    console = Console()
    if not console.is_terminal:
        console = Console(width=400)
    console.print(table)


def show_list(
    found: Iterable[dict[str, Any]],
    columns: Sequence[str],
    row: Callable[[dict[str, Any]], Sequence[object]],
    *,
    as_json: bool,
) -> None:
    """Print each item as a complete line of JSON, or as a table row that `row` makes."""
    if as_json:
        for one in found:
            say_json(one)
    else:
        show_table(columns, map(row, found))


def show_fields(fields: Iterable[tuple[str, object]]) -> None:
    shown = [(name, value) for name, value in fields if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        print(f"{name:<{width}}  {escape_controls(value)}")
