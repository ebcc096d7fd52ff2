"""Show the demand for workers."""

from typing import Annotated

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.http import MasterSession


def demand(
    http: MasterSession,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Job names. Default: all.")
    ] = None,
    *,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A label of the workers to scale. Can be repeated."),
    ] = None,
) -> None:
    """Show how many worker slots the current jobs need.

    Jobs that constraints hold back do not count.
    """
    found = http.get("/api/demand", {"name": names or None, "label": label or None})
    if http.says_json(found):
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
