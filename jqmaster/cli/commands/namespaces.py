"""Commands about namespaces and their stores. These commands concern the whole installation."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import CommandGroup, IfMatchOption, NamedObjects, if_match_of
from jqmaster.cli.console.http import MasterSession

app = CommandGroup(has_namespace=False)
namespaces = NamedObjects("namespace", "/api/namespaces")

_LOOK_EVERY_S = 0.5
# Timeout of the call that starts a move. The checks before a move read the names of all keys of both stores.
_MAX_CHECK_S = 600.0

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the namespace.")]
TitleOption = Annotated[str | None, typer.Option(help="Title to show to people next to the name.")]
ConfirmOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the namespace, as the confirmation. Default: ask for it at the terminal.",
    ),
]

WaitingJobsOption = Annotated[
    int | None,
    typer.Option(min=0, help="Refuse pushes while this many jobs wait. 0: the default of the installation."),
]
WaitingBytesOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help=(
            "Refuse pushes while the waiting jobs have this many bytes. 0: the default of the installation."
        ),
    ),
]
PushesOption = Annotated[
    int | None,
    typer.Option(
        "--pushes-per-s",
        min=0,
        help=("Accept at most this many jobs in a second. 0: the default of the installation."),
    ),
]
ArgumentBytesOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help=(
            "Refuse jobs with an argument larger than this many bytes. 0: the default of the installation."
        ),
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(min=0, help="Register at most this many workers. 0: the default of the installation."),
]
StreamsOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help=(
            "Serve at most this many live event streams at each master. 0: the default of the installation."
        ),
    ),
]


@app.listing("Namespaces: parts of an installation with jobs, workers and limits of their own")
def list_namespaces(http: MasterSession) -> None:
    """List the namespaces and their states."""
    http.show_list(
        http.get("/api/overview")["namespaces"],
        ("NAME", "STATE", "STORE", "READY", "RUNNING", "WAITING", "OLDEST", "FAILURES", "TITLE"),
        lambda n: (
            n["name"], (n["fault"] and "faulted") or n["state"], n["store"] or "", _figure(n["ready"]),
            _figure(n["running"]), _figure(n["waiting"]), _seconds(n["oldest_wait_s"]), _figure(n["failures"]),
            n["fault"] or n["failed_move"] or n["title"],
        ),
    )  # fmt: skip


@app.command()
def show(http: MasterSession, name: NameArgument) -> None:
    """Show a namespace."""
    found = http.get(namespaces.path(name))
    if http.says_json(found):
        return
    told = {"quotas": _quotas(found["quotas"])}
    if move := found.get("move"):
        told["move"] = _progress(move) + (f", at {move['ended_at']}" if move["ended_at"] else "")
    output.show_fields({**found, **told}.items())


@app.command()
def create(
    http: MasterSession,
    name: NameArgument,
    *,
    store: Annotated[
        str | None, typer.Option(help="Configured store for the data. Default: the store at redis_url.")
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(
            help="Hash tag of the keys. If the store has data with this tag, the namespace gets it."
        ),
    ] = None,
    title: TitleOption = None,
    waiting_jobs: WaitingJobsOption = None,
    waiting_bytes: WaitingBytesOption = None,
    pushes_per_s: PushesOption = None,
    argument_bytes: ArgumentBytesOption = None,
    workers: WorkersOption = None,
    streams: StreamsOption = None,
) -> None:
    """Create a namespace. It is open at once."""
    quotas = _changed(
        {},
        waiting_jobs=waiting_jobs,
        waiting_bytes=waiting_bytes,
        pushes_per_s=pushes_per_s,
        argument_bytes=argument_bytes,
        workers=workers,
        streams=streams,
    )
    body = {"store": store, "tag": tag, "title": title or "", "quotas": quotas}
    _, answer = namespaces.put(http, name, body, new=True, if_match=None)
    http.say(answer, f"{name}  created  in store {answer['store']}, with the tag {answer['tag']}")


@app.command("set")
def set_fields(
    http: MasterSession,
    name: NameArgument,
    *,
    title: TitleOption = None,
    waiting_jobs: WaitingJobsOption = None,
    waiting_bytes: WaitingBytesOption = None,
    pushes_per_s: PushesOption = None,
    argument_bytes: ArgumentBytesOption = None,
    workers: WorkersOption = None,
    streams: StreamsOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Change the title and quotas of a namespace. The other fields stay unchanged."""
    present = http.get(namespaces.path(name))
    # Change only the version that was just read, if the caller gave no other ETag.
    known = if_match or str(present["version"])
    quotas = _changed(
        present["quotas"],
        waiting_jobs=waiting_jobs,
        waiting_bytes=waiting_bytes,
        pushes_per_s=pushes_per_s,
        argument_bytes=argument_bytes,
        workers=workers,
        streams=streams,
    )
    body = {**present, **({} if title is None else {"title": title}), "quotas": quotas}
    _, answer = namespaces.put(http, name, body, new=False, if_match=known)
    http.say(answer, f"{name}  {answer['title']}  {_quotas(answer['quotas'])}")


@app.command()
def close(http: MasterSession, name: NameArgument) -> None:
    """Stop serving a namespace. The data stays in the store."""
    answer = http.post(namespaces.path(name, "close"))
    http.say(answer, f"{name}  {answer['state']}")


@app.command("open")
def open_again(http: MasterSession, name: NameArgument) -> None:
    """Serve a closed namespace again."""
    answer = http.post(namespaces.path(name, "open"))
    http.say(answer, f"{name}  {answer['state']}")


@app.command()
def move(
    http: MasterSession,
    name: NameArgument,
    *,
    to: Annotated[
        str | None, typer.Option(metavar="STORE", help="Configured store to which to move the namespace.")
    ] = None,
    to_node: Annotated[
        str | None,
        typer.Option(
            metavar="NODE",
            help=(
                "Node of the namespace's Cluster to which to move it: host:port or ID. The "
                "namespace is served during the move."
            ),
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help=("Only check the move and measure the namespace, and change nothing.")
        ),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Show the progress of the move until it has ended.")
    ] = True,
) -> None:
    """Move a namespace to another store or to another node of its Cluster.

    Masters do not serve the namespace during a move to another store."""
    if (to is None) == (to_node is None):
        exits.fail(exits.USAGE, "use either --to STORE or --to-node NODE")
    parts, body = (("move",), {"store": to}) if to else (("slot", "move"), {"node": to_node})
    _, answer = http.call(
        "POST", namespaces.path(name, *parts), body={**body, "dry_run": dry_run}, timeout_s=_MAX_CHECK_S
    )
    if dry_run:
        http.say(answer, _plan(answer) if to else _slot_plan(answer))
        return
    if to:
        answer = _followed(http, namespaces.path(name), answer, _store_move) if wait else answer
        line, is_done = _store_move(answer), answer["move"]["step"] == "done"
    else:
        target = answer["move"]["target"] if answer["move"] else to_node
        answer = _followed(http, namespaces.path(name, "slot"), answer, _slot_place) if wait else answer
        line, is_done = _slot_place(answer), answer["node"] == target
    http.say(answer, f"{name}  {line}")
    if wait and not is_done:
        raise typer.Exit(exits.FAILED)


def _followed(http: MasterSession, path: str, answer: Any, line_of: Callable[[Any], str]) -> Any:
    """Show the progress of a move until it has ended. Return the last answer."""
    told = ""
    while (move := answer["move"]) and move["ended_at"] is None:
        if (line := line_of(answer)) != told:
            typer.echo(f"{answer['name']}  {line}", err=True)
            told = line
        time.sleep(_LOOK_EVERY_S)
        answer = http.get(path)
    return answer


@app.command()
def slot(http: MasterSession, name: NameArgument) -> None:
    """Show which node of a Cluster has a namespace, and the newest move of its slot."""
    found = http.get(namespaces.path(name, "slot"))
    if http.says_json(found):
        return
    output.say(f"{name}  {_slot_place(found)}")
    output.show_table(
        ("NODE", "SLOT", "MEMORY", "ID"),
        [
            (one["address"], found["slot"] if one["has_slot"] else "", _memory(one), one["id"])
            for one in found["nodes"]
        ],
    )
    if found["fault"]:
        output.say(f"The slot cannot be moved: {found['fault']}")


@app.command("abort-move")
def abort_move(
    http: MasterSession,
    name: NameArgument,
    *,
    node: Annotated[
        bool,
        typer.Option(
            "--node", help=("Abort a move to another node of the Cluster, not a move to another store.")
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=(
                "End the move even if its record is damaged or lost. The namespace is then closed, in the "
                "store that has its data."
            ),
        ),
    ] = False,
    confirm: ConfirmOption = None,
) -> None:
    """Abort the move of a namespace. Masters serve it again in its old store or at its old node."""
    if node:
        _, answer = http.call("DELETE", namespaces.path(name, "slot", "move"))
        http.say(answer, f"{name}  {_slot_place(answer)}")
        return
    if force:
        _confirm(name, confirm, "Type the name of the namespace to end its move")
    query = {"force": "true" if force else None}
    _, answer = http.call("DELETE", namespaces.path(name, "move"), query=query)
    told = _progress(answer["move"]) if answer["move"] else f"{answer['state']}, in store {answer['store']}"
    http.say(answer, f"{name}  {told}")


@app.command()
def delete(
    http: MasterSession,
    name: NameArgument,
    *,
    confirm: ConfirmOption = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=(
                "Delete the namespace even if it has unfinished jobs, its store is unreachable, or its "
                "entry in the registry cannot be read."
            ),
        ),
    ] = False,
    if_match: IfMatchOption = None,
) -> None:
    """Delete a closed namespace. The data stay in the store. A new namespace with the same store and tag gets them."""
    _confirm(name, confirm, "Type the name of the namespace to delete it")
    query = {"confirm": name, "force": "true" if force else None}
    # With --force, the entry may be unreadable. Other faults are told by the DELETE.
    status, found = http.call("GET", namespaces.path(name), admit=range(400, 600))
    http.call("DELETE", namespaces.path(name), query=query, headers=if_match_of(if_match))
    if status != 200:
        http.say(
            {"name": name, "deleted": True},
            f"the entry of namespace {name} is deleted; its data stay in their store",
        )
        return
    store, tag = found["store"], found["tag"]
    http.say(
        {"name": name, "deleted": True, "store": store, "tag": tag},
        f"namespace {name} deleted; its data stay in store {store} with the tag {tag}\n"
        f"  A new namespace takes them over: jqmaster namespaces create {name} --tag {tag} --store {store}",
    )


@app.command()
def stores(http: MasterSession) -> None:
    """List the configured stores, and the namespaces in each."""
    http.show_list(
        http.get("/api/stores")["stores"],
        ("NAME", "TOPOLOGY", "SERVER", "MEMORY", "NAMESPACES", "STATE"),
        lambda s: (
            s["name"], s["topology"], s["server"] or "-", _memory(s), ", ".join(s["namespaces"]) or "-",
            "; ".join(f"{key}: {text}" for key, text in s["faults"].items()) or "ok",
        ),
    )  # fmt: skip


def _confirm(name: str, given: str | None, prompt: str) -> None:
    """End the command if the name was neither given as a confirmation nor is typed now."""
    typed = given
    if typed is None:
        if not sys.stdin.isatty():
            exits.fail(exits.USAGE, f"there is no terminal for the confirmation; use --confirm {name}")
        typed = typer.prompt(prompt)
    if typed != name:
        exits.fail(exits.USAGE, f"{typed} is not {name}: nothing was changed")


def _plan(plan: Mapping[str, Any]) -> str:
    leases = (
        "running jobs keep their leases" if plan["keeps_leases"] else "running jobs may run again afterwards"
    )
    return (
        f"{plan['name']}  {plan['keys']} keys, {plan['bytes'] / 2**20:.1f} MiB to store {plan['store']}; "
        f"expected stop: {plan['stop_s']:.0f} s; {leases}"
    )


def _slot_plan(plan: Mapping[str, Any]) -> str:
    return (
        f"{plan['name']}  slot {plan['slot']}, {plan['keys']} keys, {plan['bytes'] / 2**20:.1f} MiB from "
        f"{plan['source']} to {plan['target']}; nothing stops"
    )


def _slot_place(found: Mapping[str, Any]) -> str:
    """Return a text about the node of a slot, and its newest move."""
    told = f"slot {found['slot']} at {found['node'] or 'no node'}"
    if not (move := found["move"]):
        return told
    reason = f"  ({move['reason']})" if move["reason"] else ""
    state = move["engine_state"] if move["state"] == "moving" else move["state"]
    return f"{told}; {move['source']} to {move['target']}: {state}{reason}"


def _store_move(found: Mapping[str, Any]) -> str:
    return _progress(found["move"])


def _progress(move: Mapping[str, Any]) -> str:
    """Return a text about the progress of a move."""
    counts = {"copying": move["copied_keys"], "checking": move["compared_keys"]}
    done = counts.get(move["step"])
    # The number of keys is that at the start of the move. Meanwhile, the namespace may have got more.
    told = "" if done is None else f"  {done} of about {max(done, move['keys'])} keys"
    if move["aborted_by"] and move["ended_at"] is None:
        told += ", being aborted"
    return f"{move['source']} to {move['target']}: {move['step']}{told}" + (
        f"  ({move['reason']})" if move["reason"] else ""
    )


def _quotas(quotas: Mapping[str, Any]) -> str:
    told = [f"{quota.replace('_', ' ')}: {most}" for quota, most in quotas.items() if most is not None]
    return "  ".join(told) or "no quotas of its own"


def _changed(present: Mapping[str, Any], **changes: int | None) -> dict[str, Any]:
    """Return the current quotas with the changes. None keeps a quota, and 0 removes it."""
    return {**present, **{quota: most or None for quota, most in changes.items() if most is not None}}


def _figure(value: int | None) -> str:
    return "-" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _memory(store: Mapping[str, Any]) -> str:
    used, most = store["used_memory_bytes"], store["max_memory_bytes"]
    if used is None:
        return "-"
    return f"{used / 2**20:.0f} MiB" + (f" of {most / 2**20:.0f}" if most else "")
