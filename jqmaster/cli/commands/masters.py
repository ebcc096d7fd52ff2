"""Commands about the masters of a store."""

import time
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.console.state_words import state_word

_POLL_S = 0.1
# Maximum wait until another master leads. A leader that misses the request notices it when it renews its lock.
# After that, an election may be necessary.
_LED_WITHIN_S = 15.0

app = CommandGroup()


@app.listing("The masters of the store, and which one leads")
def list_masters(http: MasterSession) -> None:
    """List the masters."""
    http.show_list(
        http.get("/api/masters")["masters"],
        ("ID", "ROLE", "STATE", "NODE", "PID", "URL", "VERSION", "STARTED", "LAST SEEN"),
        lambda m: (m["id"], m["role"], state_word(m["state"]), m["node_id"], m["pid"], m["url"], m["version"],
            m["started_at"], m["last_seen_at"]),
    )  # fmt: skip


@app.command()
def demote(
    http: MasterSession,
    master_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the master that leads.")],
) -> None:
    """Hand the lead to another master, and wait until that master leads."""
    told = http.post(path_of("/api/masters", master_id, "demote"))
    deadline_s = time.monotonic() + _LED_WITHIN_S
    while (leader := _leader_after(http, told["epoch"])) is None:
        if time.monotonic() > deadline_s:
            exits.fail(
                exits.UNREACHABLE,
                f"the leader got the request, but no other master leads after {_LED_WITHIN_S:g} s",
            )
        time.sleep(_POLL_S)
    http.say(leader, f"{leader['id']}  leads  {leader['url']}")


def _leader_after(http: MasterSession, epoch: int) -> dict[str, Any] | None:
    """Return the master that leads in a newer epoch, or None if no such master leads yet."""
    answer = http.get("/api/masters")
    if answer["epoch"] <= epoch:
        return None
    return next((m for m in answer["masters"] if m["role"] == "leader"), None)
