"""Behaviour that groups of commands share: list if no command is given, and send one order to many objects."""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Protocol

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import DEFAULT_MASTER, JsonOption, MasterOption, MasterSession, TokenOption


class Listing(Protocol):
    """A command that lists; everything else of it has defaults."""

    def __call__(self, *, master: MasterOption, token: TokenOption, as_json: JsonOption) -> None: ...


def list_without_command(app: typer.Typer, listing: Listing, text: str) -> None:
    """`listing` is what `app` does where no command of it is given; `text` is the help of the whole group."""

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
    """Posts to each of `paths`, and says how the thing is then, in the words of `text`. All are tried; the exit code is
    that of the last failure."""
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
