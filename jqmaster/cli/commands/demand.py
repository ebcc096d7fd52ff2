"""The demand for workers from the command line."""

from typing import Annotated

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.http import DEFAULT_MASTER, JsonOption, MasterOption, MasterSession, TokenOption


def demand(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Job names. Default: all.")
    ] = None,
    *,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A label of the workers to scale. Can be repeated."),
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how many slots of workers jobs need now.

    Jobs that constraints hold back are not part of the demand.
    """
    with MasterSession(master, token) as http:
        _, found = http.call("GET", "/api/demand", query={"name": names or None, "label": label or None})
    if as_json:
        output.say_json(found)
        return
    wait_s = found["oldest_wait_s"]
    output.show_fields(
        [
            ("demand", f"{found['demand']}{'' if found['is_exact'] else ' or more'}"),
            ("ready", found["ready"]),
            ("running", found["running"]),
            ("blocked", found["blocked"]),
            ("slots", found["slots"]),
            ("oldest wait", "" if wait_s is None else f"{wait_s:g} s"),
        ]
    )
