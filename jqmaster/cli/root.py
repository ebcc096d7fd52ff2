"""All commands, in the order of the help."""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from jqmaster.cli.console import exits
from jqmaster.cli.console.foreign_options import suggest_option
from jqmaster.cli.console.help_pages import show_no_type_of_flags
from jqmaster.cli.on_demand import CommandOnDemand, Commands

_EXITS = "  ·  ".join(f"{code}: {meaning}" for code, meaning in exits.TABLE)
_ROOM: Final = "jqmaster.cli.commands."

# The commands by panel of the help, in the order in which new users need them.
COMMANDS: Final = (
    CommandOnDemand("serve", f"{_ROOM}serve:serve", "Run"),
    CommandOnDemand("worker", f"{_ROOM}worker:worker", "Run"),
    CommandOnDemand("outbox", f"{_ROOM}outbox:outbox", "Run"),
    CommandOnDemand("enqueue", f"{_ROOM}enqueue:enqueue", "Jobs"),
    CommandOnDemand("jobs", f"{_ROOM}jobs:list_jobs", "Jobs", is_reading=True),
    CommandOnDemand("job", f"{_ROOM}jobs:job", "Jobs"),
    CommandOnDemand("logs", f"{_ROOM}logs:logs", "Jobs"),
    CommandOnDemand("why", f"{_ROOM}why:why", "Jobs", is_reading=True),
    CommandOnDemand("result", f"{_ROOM}jobs:result", "Jobs"),
    CommandOnDemand("cancel", f"{_ROOM}jobs:cancel", "Jobs"),
    CommandOnDemand("retry", f"{_ROOM}jobs:retry", "Jobs"),
    CommandOnDemand("run", f"{_ROOM}jobs:run", "Jobs"),
    CommandOnDemand("set", f"{_ROOM}jobs:set_job", "Jobs"),
    CommandOnDemand("take", f"{_ROOM}take:take", "Jobs"),
    CommandOnDemand("done", f"{_ROOM}take:done", "Jobs"),
    CommandOnDemand("delete", f"{_ROOM}jobs:delete", "Jobs"),
    CommandOnDemand("erase-log", f"{_ROOM}logs:erase_log", "Jobs"),
    CommandOnDemand("bulk", f"{_ROOM}bulk:bulk", "Many jobs"),
    CommandOnDemand("actions", f"{_ROOM}bulk:actions", "Many jobs"),
    CommandOnDemand("failures", f"{_ROOM}failures:app", "Many jobs"),
    CommandOnDemand("batches", f"{_ROOM}batches:app", "Many jobs"),
    CommandOnDemand("constraints", f"{_ROOM}constraints:app", "Limits"),
    CommandOnDemand("pause", f"{_ROOM}pauses:pause", "Limits"),
    CommandOnDemand("resume", f"{_ROOM}pauses:resume", "Limits"),
    CommandOnDemand("pauses", f"{_ROOM}pauses:list_pauses", "Limits", is_reading=True),
    CommandOnDemand("plan", f"{_ROOM}apply:plan", "Limits"),
    CommandOnDemand("apply", f"{_ROOM}apply:apply", "Limits"),
    CommandOnDemand("definitions", f"{_ROOM}definitions:app", "Time"),
    CommandOnDemand("calendars", f"{_ROOM}calendars:app", "Time"),
    CommandOnDemand("events", f"{_ROOM}events:app", "Time"),
    CommandOnDemand("challenges", f"{_ROOM}challenges:app", "People and other systems"),
    CommandOnDemand("notices", f"{_ROOM}notices:app", "People and other systems"),
    CommandOnDemand("targets", f"{_ROOM}targets:app", "People and other systems"),
    CommandOnDemand("webhooks", f"{_ROOM}webhooks:app", "People and other systems"),
    CommandOnDemand("fireworq", f"{_ROOM}fireworq:app", "People and other systems"),
    CommandOnDemand("health", f"{_ROOM}health:health", "Operate"),
    CommandOnDemand("stats", f"{_ROOM}stats:stats", "Operate"),
    CommandOnDemand("top", f"{_ROOM}top:top", "Operate"),
    CommandOnDemand("names", f"{_ROOM}stats:names", "Operate"),
    CommandOnDemand("demand", f"{_ROOM}demand:demand", "Operate"),
    CommandOnDemand("workers", f"{_ROOM}workers:app", "Operate"),
    CommandOnDemand("masters", f"{_ROOM}masters:app", "Operate"),
    CommandOnDemand("namespaces", f"{_ROOM}namespaces:app", "Operate"),
    CommandOnDemand("mcp", f"{_ROOM}mcp:mcp", "Operate"),
    CommandOnDemand("settings", f"{_ROOM}live_settings:app", "Operate"),
    CommandOnDemand("incidents", f"{_ROOM}incidents:app", "Operate"),
    CommandOnDemand("audit", f"{_ROOM}audit:audit", "Operate"),
    CommandOnDemand("personal-data", f"{_ROOM}personal_data:app", "Operate"),
    CommandOnDemand("seal", f"{_ROOM}seal:app", "Operate"),
    CommandOnDemand("remove-contracts", f"{_ROOM}stats:remove_contracts", "Operate"),
    CommandOnDemand("tokens", f"{_ROOM}tokens:app", "Access"),
    CommandOnDemand(
        "token", f"{_ROOM}tokens:app", "Access", is_hidden=True
    ),  # the command's name until release 0.1
    CommandOnDemand("users", f"{_ROOM}users:app", "Access"),
    CommandOnDemand(
        "user", f"{_ROOM}users:app", "Access", is_hidden=True
    ),  # the command's name until release 0.1
    CommandOnDemand("doctor", f"{_ROOM}store:doctor", "Store"),
    CommandOnDemand("fsck", f"{_ROOM}store:fsck", "Store"),
    CommandOnDemand("backup", f"{_ROOM}backup:backup", "Store"),
    CommandOnDemand("verify", f"{_ROOM}backup:verify", "Store"),
    CommandOnDemand("restore", f"{_ROOM}backup:restore", "Store"),
    CommandOnDemand("export", f"{_ROOM}transfer:export", "Store"),
    CommandOnDemand("import", f"{_ROOM}transfer:import_", "Store"),
    CommandOnDemand("help", f"{_ROOM}help:show_help", "Tools"),
    CommandOnDemand("healthcheck", f"{_ROOM}healthcheck:healthcheck", "Tools"),
    CommandOnDemand("openapi", f"{_ROOM}contract:openapi", "Tools"),
    CommandOnDemand("version", f"{_ROOM}contract:version", "Tools"),
    CommandOnDemand("conformance", f"{_ROOM}conformance:app", "Tools"),
)


# Commands that print a list. For them, `jqmaster jobs list` works, too, because users know `list` from groups of
# commands.
_LISTS: Final = ("actions", "audit", "jobs", "names", "pauses")


class _Root(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands(COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        show_no_type_of_flags(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest[1:] if name in _LISTS and rest[:1] == ["list"] else rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command. An expected error ends the command with one line of text."""
        with exits.told():
            try:
                return super().invoke(ctx)
            except Exception as error:
                suggest_option(error)
                raise


app = typer.Typer(
    cls=_Root,
    name="jqmaster",
    epilog=f"Exit codes  {_EXITS}\n\n"
    "More  jqmaster help COMMAND, or a topic: exit-codes, json, matchers, times, variables",
    no_args_is_help=True,
    # Leave local variables out of tracebacks, because they may contain tokens and arguments.
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
