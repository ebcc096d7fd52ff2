"""Output of commands: JSON lines for programs, and tables for people. Control characters in untrusted text are escaped
first."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from worker_sdk.transport import standard_streams

# A longer cell that contains blanks counts as prose and may be wrapped.
_WHOLE: Final = 30
_GAP: Final = 2
_PIPE: Final = 400

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
    """Print a value of a user as indented JSON."""
    print(_inert_json(json.dumps(value, ensure_ascii=_is_narrow(), indent=2)))


def _is_narrow() -> bool:
    """Return whether the encoding of standard output lacks some characters. If so, JSON output must escape these
    characters itself to stay JSON."""
    return sys.stdout.encoding.lower() not in ("utf-8", "utf8")


def _inert_json(text: str) -> str:
    """Return the JSON text with control characters in its strings escaped."""
    return standard_streams.ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """Print a table. Only prose is wrapped to the width of the terminal. IDs, times and names stay in one piece,
    so that people can copy them. A row that is too long continues in the next line of the terminal."""
    from rich.console import Console
    from rich.segment import Segment, Segments
    from rich.table import Table
    from rich.text import Text

    # Pass Text objects, because a string such as the job name [red] would be interpreted as markup.
    cells = [[Text("" if cell is None else escape_controls(cell)) for cell in row] for row in rows]
    table = Table(title=title or None, box=None, pad_edge=False, title_justify="left")
    least = 0
    for number, column in enumerate(columns):
        inside = [row[number] for row in cells if number < len(row)]
        is_prose = any(cell.cell_len > _WHOLE and " " in cell.plain for cell in inside)
        table.add_column(column, no_wrap=not is_prose, overflow="fold")
        widest = max((cell.cell_len for cell in (Text(column), *inside)), default=0)
        least += _GAP + (min(widest, _WHOLE) if is_prose else widest)
    for row in cells:
        table.add_row(*row)
    # Only a terminal has a width. Write whole lines to a pipe.
    console = Console()
    console = Console(width=max(least, console.width if console.is_terminal else _PIPE))
    # Remove blanks after the last cell, because they would become separate lines in a narrow terminal.
    for line in console.render_lines(table, pad=False):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
        console.print(Segments([*line, Segment.line()]), end="")


def show_list(
    found: Iterable[dict[str, Any]],
    columns: Sequence[str],
    row: Callable[[dict[str, Any]], Sequence[object]],
    *,
    as_json: bool,
) -> None:
    """Print each item as one line of JSON, or as a table row that `row` makes."""
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
