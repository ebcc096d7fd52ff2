"""All commands, in the order in which a newcomer meets them."""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from jqmaster.cli.commands.on_demand import Command, Commands
from jqmaster.cli.console import exits

_EXITS = "  ·  ".join(f"{code}: {meaning}" for code, meaning in exits.TABLE)
_ROOM: Final = "jqmaster.cli.commands."

# Single commands stand before groups of commands.
COMMANDS: Final = (
    Command("serve", f"{_ROOM}serve:serve"),
    Command("worker", f"{_ROOM}worker:worker"),
    Command("outbox", f"{_ROOM}outbox:outbox"),
    Command("enqueue", f"{_ROOM}jobs:enqueue"),
    Command("jobs", f"{_ROOM}jobs:list_jobs"),
    Command("job", f"{_ROOM}jobs:job"),
    Command("logs", f"{_ROOM}logs:logs"),
    Command("why", f"{_ROOM}why:why"),
    Command("result", f"{_ROOM}jobs:result"),
    Command("cancel", f"{_ROOM}jobs:cancel"),
    Command("retry", f"{_ROOM}jobs:retry"),
    Command("run", f"{_ROOM}jobs:run"),
    Command("set", f"{_ROOM}jobs:set_job"),
    Command("take", f"{_ROOM}take:take"),
    Command("done", f"{_ROOM}take:done"),
    Command("delete", f"{_ROOM}jobs:delete"),
    Command("bulk", f"{_ROOM}bulk:bulk"),
    Command("actions", f"{_ROOM}bulk:actions"),
    Command("stats", f"{_ROOM}stats:stats"),
    Command("top", f"{_ROOM}top:top"),
    Command("names", f"{_ROOM}stats:names"),
    Command("pause", f"{_ROOM}pauses:pause"),
    Command("resume", f"{_ROOM}pauses:resume"),
    Command("pauses", f"{_ROOM}pauses:list_pauses"),
    Command("plan", f"{_ROOM}apply:plan"),
    Command("apply", f"{_ROOM}apply:apply"),
    Command("audit", f"{_ROOM}audit:audit"),
    Command("doctor", f"{_ROOM}store:doctor"),
    Command("fsck", f"{_ROOM}store:fsck"),
    Command("healthcheck", f"{_ROOM}healthcheck:healthcheck"),
    Command("openapi", f"{_ROOM}contract:openapi"),
    Command("version", f"{_ROOM}contract:version"),
    Command("failures", f"{_ROOM}failures:app"),
    Command("workers", f"{_ROOM}workers:app"),
    Command("masters", f"{_ROOM}masters:app"),
    Command("constraints", f"{_ROOM}constraints:app"),
    Command("batches", f"{_ROOM}batches:app"),
    Command("definitions", f"{_ROOM}definitions:app"),
    Command("events", f"{_ROOM}events:app"),
    Command("challenges", f"{_ROOM}challenges:app"),
    Command("webhooks", f"{_ROOM}webhooks:app"),
    Command("notices", f"{_ROOM}notices:app"),
    Command("settings", f"{_ROOM}live_settings:app"),
    Command("tokens", f"{_ROOM}tokens:app"),
    Command("token", f"{_ROOM}tokens:app", is_hidden=True),  # its name until 0.1
    Command("users", f"{_ROOM}users:app"),
    Command("user", f"{_ROOM}users:app", is_hidden=True),  # its name until 0.1
    Command("conformance", f"{_ROOM}conformance:app"),
)


class _Root(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands(COMMANDS)


app = typer.Typer(
    cls=_Root,
    name="jqmaster",
    epilog=f"Exit codes  {_EXITS}",
    no_args_is_help=True,
    # A traceback with local variables would show tokens and arguments.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from jqmaster.cli.commands import contract

        contract.version()
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """A job queue. Push jobs over HTTP; jqmaster stores them safely in Valkey or Redis and runs them on workers."""
