"""Commands about the masters of a store."""

import time
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import list_without_command
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    MasterOption,
    MasterSession,
    TokenOption,
    path_of,
)

_POLL_S = 0.1
# A leader that misses the request learns of it when it renews its lock, and another election may follow.
_LED_WITHIN_S = 15.0

app = typer.Typer(invoke_without_command=True)


@app.command("list")
def list_masters(
    master: MasterOption = DEFAULT_MASTER, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """List the masters."""
    with MasterSession(master, token) as http:
        answer = _listed(http)
    output.show_list(
        answer["masters"],
        ("ID", "ROLE", "STATE", "NODE", "PID", "URL", "VERSION", "STARTED", "LAST SEEN"),
        lambda m: (m["id"], m["role"], m["state"], m["node_id"], m["pid"], m["url"], m["version"], m["started_at"],
            m["last_seen_at"]),
        as_json=as_json,
    )  # fmt: skip


list_without_command(app, list_masters, "The masters of the store, and which one leads")


@app.command()
def demote(
    master_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the master that leads.")],
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hand the lead to another master, and wait until it leads."""
    with MasterSession(master, token) as http:
        _, told = http.call("POST", path_of("/api/masters", master_id, "demote"))
        deadline_s = time.monotonic() + _LED_WITHIN_S
        while (leader := _leader_after(http, told["epoch"])) is None:
            if time.monotonic() > deadline_s:
                exits.fail(
                    exits.UNREACHABLE,
                    f"the leader was told, but no other master leads after {_LED_WITHIN_S:g} s",
                )
            time.sleep(_POLL_S)
    if as_json:
        output.say_json(leader)
    else:
        output.say(f"{leader['id']}  leads  {leader['url']}")


def _listed(http: MasterSession) -> dict[str, Any]:
    _, answer = http.call("GET", "/api/masters")
    found: dict[str, Any] = answer
    return found


def _leader_after(http: MasterSession, epoch: int) -> dict[str, Any] | None:
    """Return the master that leads under a newer epoch."""
    answer = _listed(http)
    if answer["epoch"] <= epoch:
        return None
    return next((m for m in answer["masters"] if m["role"] == "leader"), None)
