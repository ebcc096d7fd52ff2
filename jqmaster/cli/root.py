"""All commands, in the order in which a newcomer meets them."""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from jqmaster.cli.console import exits
from jqmaster.cli.on_demand import CommandOnDemand, Commands

_EXITS = "  ·  ".join(f"{code}: {meaning}" for code, meaning in exits.TABLE)
_ROOM: Final = "jqmaster.cli.commands."

# Single commands stand before groups of commands.
COMMANDS: Final = (
    CommandOnDemand("serve", f"{_ROOM}serve:serve"),
    CommandOnDemand("worker", f"{_ROOM}worker:worker"),
    CommandOnDemand("outbox", f"{_ROOM}outbox:outbox"),
    CommandOnDemand("enqueue", f"{_ROOM}jobs:enqueue"),
    CommandOnDemand("jobs", f"{_ROOM}jobs:list_jobs"),
    CommandOnDemand("job", f"{_ROOM}jobs:job"),
    CommandOnDemand("logs", f"{_ROOM}logs:logs"),
    CommandOnDemand("why", f"{_ROOM}why:why"),
    CommandOnDemand("result", f"{_ROOM}jobs:result"),
    CommandOnDemand("cancel", f"{_ROOM}jobs:cancel"),
    CommandOnDemand("retry", f"{_ROOM}jobs:retry"),
    CommandOnDemand("run", f"{_ROOM}jobs:run"),
    CommandOnDemand("set", f"{_ROOM}jobs:set_job"),
    CommandOnDemand("take", f"{_ROOM}take:take"),
    CommandOnDemand("done", f"{_ROOM}take:done"),
    CommandOnDemand("delete", f"{_ROOM}jobs:delete"),
    CommandOnDemand("erase-log", f"{_ROOM}logs:erase_log"),
    CommandOnDemand("bulk", f"{_ROOM}bulk:bulk"),
    CommandOnDemand("actions", f"{_ROOM}bulk:actions"),
    CommandOnDemand("stats", f"{_ROOM}stats:stats"),
    CommandOnDemand("demand", f"{_ROOM}demand:demand"),
    CommandOnDemand("top", f"{_ROOM}top:top"),
    CommandOnDemand("names", f"{_ROOM}stats:names"),
    CommandOnDemand("remove-contracts", f"{_ROOM}stats:remove_contracts"),
    CommandOnDemand("pause", f"{_ROOM}pauses:pause"),
    CommandOnDemand("resume", f"{_ROOM}pauses:resume"),
    CommandOnDemand("pauses", f"{_ROOM}pauses:list_pauses"),
    CommandOnDemand("plan", f"{_ROOM}apply:plan"),
    CommandOnDemand("apply", f"{_ROOM}apply:apply"),
    CommandOnDemand("audit", f"{_ROOM}audit:audit"),
    CommandOnDemand("doctor", f"{_ROOM}store:doctor"),
    CommandOnDemand("fsck", f"{_ROOM}store:fsck"),
    CommandOnDemand("backup", f"{_ROOM}backup:backup"),
    CommandOnDemand("verify", f"{_ROOM}backup:verify"),
    CommandOnDemand("restore", f"{_ROOM}backup:restore"),
    CommandOnDemand("export", f"{_ROOM}transfer:export"),
    CommandOnDemand("import", f"{_ROOM}transfer:import_"),
    CommandOnDemand("healthcheck", f"{_ROOM}healthcheck:healthcheck"),
    CommandOnDemand("openapi", f"{_ROOM}contract:openapi"),
    CommandOnDemand("version", f"{_ROOM}contract:version"),
    CommandOnDemand("failures", f"{_ROOM}failures:app"),
    CommandOnDemand("workers", f"{_ROOM}workers:app"),
    CommandOnDemand("masters", f"{_ROOM}masters:app"),
    CommandOnDemand("constraints", f"{_ROOM}constraints:app"),
    CommandOnDemand("batches", f"{_ROOM}batches:app"),
    CommandOnDemand("definitions", f"{_ROOM}definitions:app"),
    CommandOnDemand("events", f"{_ROOM}events:app"),
    CommandOnDemand("challenges", f"{_ROOM}challenges:app"),
    CommandOnDemand("webhooks", f"{_ROOM}webhooks:app"),
    CommandOnDemand("notices", f"{_ROOM}notices:app"),
    CommandOnDemand("settings", f"{_ROOM}live_settings:app"),
    CommandOnDemand("tokens", f"{_ROOM}tokens:app"),
    CommandOnDemand("token", f"{_ROOM}tokens:app", is_hidden=True),  # its name until 0.1
    CommandOnDemand("users", f"{_ROOM}users:app"),
    CommandOnDemand("user", f"{_ROOM}users:app", is_hidden=True),  # its name until 0.1
    CommandOnDemand("conformance", f"{_ROOM}conformance:app"),
)


class _Root(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands(COMMANDS)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. What the SDK finds wrong with it ends it as the command's own faults do."""
        with exits.told():
            return super().invoke(ctx)


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
