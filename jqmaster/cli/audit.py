"""The audit log."""

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from jqmaster.cli import output
from jqmaster.cli.constraint_files import spelled
from jqmaster.cli.http import DEFAULT_MASTER, JsonOption, Master, MasterOption, TokenOption

_PAGE = 200


def audit(
    *,
    target: Annotated[str | None, typer.Option(help="Changes of this constraint only.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most changes to print.")] = 50,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who changed what, the newest first."""
    with Master(master, token) as http:
        entries = itertools.islice(_entries(http, target, limit), limit)
        if as_json:
            for entry in entries:
                output.say_json(entry)
            return
        output.show_table(
            ("AT", "WHO", "ACTION", "TARGET", "CHANGE"),
            ((e["at"], e["who"], e["action"], e["target"], _change_text(e["before"], e["after"])) for e in entries),
        )  # fmt: skip


def _entries(http: Master, target: str | None, limit: int) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        query = {"target": target, "limit": min(limit, _PAGE), "cursor": cursor}
        _, page = http.call("GET", "/api/audit", query=query)
        yield from page["entries"]
        if (cursor := page["next_cursor"]) is None:
            return


def _change_text(before: Any, after: Any) -> str:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return spelled(after if before is None else None)
    fields = (field for field in after if spelled(before.get(field)) != spelled(after[field]))
    return "; ".join(f"{f}: {spelled(before.get(f))} -> {spelled(after[f])}" for f in fields)
