"""Behaviour that groups of commands share: list if no command is given, and send one order to many objects."""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Protocol

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import DEFAULT_MASTER, JsonOption, MasterOption, MasterSession, TokenOption


class Listing(Protocol):
    """A command that lists; its other parameters have defaults."""

    def __call__(self, *, master: MasterOption, token: TokenOption, as_json: JsonOption) -> None: ...


def list_without_command(app: typer.Typer, listing: Listing, text: str) -> None:
    """Make `app` run `listing` if no subcommand is given. `text` is the help of the whole group."""

    @app.callback(help=f"{text}. Without a command, list them.")
    def group(
        context: typer.Context,
        master: MasterOption = DEFAULT_MASTER,
        token: TokenOption = None,
        as_json: JsonOption = False,
    ) -> None:
        if context.invoked_subcommand is None:
            listing(master=master, token=token, as_json=as_json)


def order_each(
    master: MasterSession,
    paths: Iterable[str],
    text: Callable[[dict[str, Any]], str],
    *,
    as_json: bool,
    body: dict[str, Any] | None = None,
) -> NoReturn:
    """Post to each of `paths`, and print the new state as `text` words it. Every path is tried; the exit code is that
    of the last failure."""
    worst = exits.OK
    with master as http:
        for path in paths:
            try:
                _, view = http.call("POST", path, body=body)
            except typer.Exit as ended:
                worst = ended.exit_code
                continue
            if as_json:
                output.say_json(view)
            else:
                output.say(text(view))
    raise typer.Exit(worst)
