"""Commands for users who migrate from Fireworq."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.documents import document_in
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession

app = CommandGroup(no_args_is_help=True, help="Queues and routings of clients of Fireworq")

_QUEUE_FIELDS: Final = ("polling_interval", "max_workers", "max_dispatches_per_second", "max_burst_size")


@app.command("import")
def import_(
    http: MasterSession,
    source: Annotated[
        str,
        typer.Argument(
            help=(
                "Address of a running Fireworq, or of another gateway including its prefix. Or a JSON file "
                "with {queues: […], routings: […]}; `-` reads standard input."
            )
        ),
    ],
    *,
    prefix: Annotated[str, typer.Option(help="Path of the gateway at the master.")] = "/fireworq",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be copied, and change nothing.")
    ] = False,
) -> None:
    """Copy queues and routings to the Fireworq gateway of a master. Jobs are not copied, and nothing is deleted.

    Repeating the command changes nothing.
    """
    queues, routings = _read(source)
    for queue in queues:
        body = {name: queue[name] for name in _QUEUE_FIELDS if name in queue}
        _put(http, prefix, "queue", _text(queue, "name"), body, is_dry=dry_run)
    for routing in routings:
        body = {"queue_name": _text(routing, "queue_name")}
        _put(http, prefix, "routing", _text(routing, "job_category"), body, is_dry=dry_run)
    if not http.as_json:
        would = "would be " if dry_run else ""
        output.say(f"{len(queues)} queues and {len(routings)} routings {would}put")


def _put(
    http: MasterSession, prefix: str, kind: str, name: str, body: Mapping[str, Any], *, is_dry: bool
) -> None:
    answer: Any = {"name": name, **body}
    if not is_dry:
        path = f"{prefix.rstrip('/')}/{kind}/{quote(name, safe='')}"
        status, answer = http.call("PUT", path, body=body, admit=(404, 405))
        if status >= 400:
            hint = (
                "is the gateway enabled there (`jqmaster serve --fireworq`)?"
                if kind == "queue"
                else "is it listed?"
            )
            exits.fail(exits.REFUSED, f"{path}: {answer.get('detail') or status}; {hint}")
    terms = "  ".join(f"{key}={value}" for key, value in body.items())
    http.say(answer, f"{kind} {name}  {terms}")


def _read(source: str) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return the queues and routings of a source. End the command if the source has none."""
    if urlsplit(source).scheme in ("http", "https"):
        found = {part: _fetched(source, part) for part in ("queues", "routings")}
    else:
        found = document_in(source)
    queues, routings = found.get("queues", []), found.get("routings", [])
    for part, entries in (("queues", queues), ("routings", routings)):
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            exits.fail(exits.USAGE, f"{source}: {part} is not a list of maps")
    return queues, routings


def _fetched(source: str, part: str) -> Any:
    import httpx

    url = f"{source.rstrip('/')}/{part}"
    try:
        response = httpx.get(url, timeout=30, headers={"Accept": "application/json"})
    except httpx.InvalidURL as error:
        exits.fail(exits.USAGE, f"{url}: {error}")
    except httpx.HTTPError as error:
        exits.fail(exits.UNREACHABLE, f"{url}: {error or type(error).__name__}")
    if response.status_code != 200:
        exits.fail(exits.REFUSED, f"{url} answered {response.status_code}: is it a Fireworq?")
    try:
        return response.json()
    except ValueError:
        exits.fail(exits.REFUSED, f"{url} did not answer with JSON: is it a Fireworq?")


def _text(entry: Mapping[str, Any], field: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value:
        exits.fail(exits.USAGE, f"an entry has no {field}")
    return value
