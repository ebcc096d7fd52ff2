"""Commands about HTTP targets."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.documents import json_of
from jqmaster.cli.console.groups import CommandGroup, NamedObjects
from jqmaster.cli.console.http import MasterSession

app = CommandGroup()
targets = NamedObjects("target", "/api/targets")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the target.")]


@app.listing("HTTP targets: endpoints that do jobs without a worker")
def list_targets(http: MasterSession) -> None:
    """List the targets, the names that they serve, and the results of their requests."""
    http.show_list(
        http.get("/api/targets")["targets"],
        ("NAME", "NAMES", "URL", "RUNNING", "REQUESTS/S", "P99", "STATE"),
        lambda t: (
            t["name"], ", ".join(t["names"]), _url(t), f"{t['running']}/{t['max_running']}",
            t["figures"]["requests_per_s"], _p99(t["figures"]), _state(t),
        ),
    )  # fmt: skip


@app.command()
def show(http: MasterSession, name: NameArgument) -> None:
    """Show a target, its figures and its newest answers."""
    found = http.get(targets.path(name))
    if http.says_json(found):
        return
    hidden = ("url", "figures", "unreachable", "left_out")
    output.show_fields([("url", _url(found))])
    output.show_fields((key, value) for key, value in found.items() if key not in hidden)
    for why in found["unreachable"]:
        output.say(f"unreachable: it {why}")
    # Masters of an older release do not send this field.
    if left_out := found.get("left_out"):
        output.say(
            f"full: jobs of {left_out} further names wait, because one target serves at most {len(found['serving'])} "
            "names; divide its patterns among several targets"
        )
    figures = found["figures"]
    output.show_fields(
        [
            ("requests_per_s", figures["requests_per_s"]),
            ("p99", _p99(figures)),
            ("results", figures["results"]),
        ]
    )
    for one in figures["last"]:
        output.say(f"{one['at']}  {one['job_id']}  {one['result']}  {one['took_ms']} ms  {one['detail']}")


targets.add_put(app)
targets.add_delete(app, "Delete a target. Its jobs wait until something else serves their names.")


@app.command("test")
def send_test(
    http: MasterSession,
    name: NameArgument,
    argument: Annotated[
        str | None, typer.Argument(metavar="[ARGUMENT]", help="Argument of the sample, as JSON. Default: {}.")
    ] = None,
    *,
    job_name: Annotated[
        str | None, typer.Option(help="Name of the sample's job. Default: the first that the target lists.")
    ] = None,
) -> None:
    """Send a signed sample to a target, and show the request and the answer."""
    body: dict[str, Any] = {"job_name": job_name}
    if argument is not None:
        body["argument"] = json_of(argument, "ARGUMENT")
    answer = http.post(targets.path(name, "test"), body)
    if not http.says_json(answer):
        _show_exchange(answer)
    if answer["result"] not in ("succeeded", "awaiting"):
        raise typer.Exit(exits.FAILED)


def _show_exchange(answer: Mapping[str, Any]) -> None:
    request, given = answer["request"], answer["answer"]
    output.say(f"> {request['method']} {request['url']}")
    for key, value in request["headers"].items():
        output.say(f"> {key}: {value}")
    output.say(f"> {request['body']}")
    if given:
        output.say(f"< {given['status']}")
        for key, value in given["headers"].items():
            output.say(f"< {key}: {value}")
        if given["body"]:
            output.say(f"< {given['body']}")
    output.say(f"{answer['result']} after {answer['took_ms']} ms: {answer['detail']}")


def _url(target: Mapping[str, Any]) -> str:
    url = target["url"]
    return url if isinstance(url, str) else f"from {url['from']}"


def _state(target: Mapping[str, Any]) -> str:
    if target["unreachable"]:
        return "unreachable"
    return "full" if target.get("left_out") else "-"


def _p99(figures: Mapping[str, Any]) -> str:
    return f"{figures['took']['p99_ms']} ms" if figures["took"] else "-"
