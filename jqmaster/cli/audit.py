"""The audit log."""

from typing import Annotated, Any

import typer

from jqmaster.cli import output
from jqmaster.cli.constraint_files import spelled
from jqmaster.cli.http import DEFAULT_MASTER, JsonOption, Master, MasterOption, TokenOption


def audit(
    *,
    target: Annotated[str | None, typer.Option(help="Changes of this only, such as a constraint.")] = None,
    log: Annotated[
        str | None, typer.Option(help="This log only: access (logins, tokens, users) or changes (the rest).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most changes to print.")] = 50,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who changed what, the newest first."""
    with Master(master, token) as http:
        output.show_list(
            http.listed("/api/audit", "entries", query={"target": target, "log": log}, limit=limit),
            ("AT", "WHO", "ACTION", "TARGET", "CHANGE"),
            lambda e: (e["at"], e["who"], e["action"], e["target"], _change_text(e["before"], e["after"])),
            as_json=as_json,
        )  # fmt: skip


def _change_text(before: Any, after: Any) -> str:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return spelled(after if before is None else None)
    fields = (field for field in after if spelled(before.get(field)) != spelled(after[field]))
    return "; ".join(f"{f}: {spelled(before.get(f))} -> {spelled(after[f])}" for f in fields)
