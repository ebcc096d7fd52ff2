"""All commands, in the order in which a newcomer meets them."""

from typing import Annotated

import typer

from jqmaster.cli.commands import (
    apply,
    audit,
    batches,
    bulk,
    challenges,
    conformance,
    constraints,
    contract,
    definitions,
    events,
    failures,
    healthcheck,
    jobs,
    live_settings,
    masters,
    outbox,
    pauses,
    serve,
    stats,
    store,
    take,
    tokens,
    top,
    users,
    webhooks,
    why,
    worker,
    workers,
)
from jqmaster.cli.console import exits

_EXITS = "  ·  ".join(f"{code}: {meaning}" for code, meaning in exits.TABLE)

app = typer.Typer(
    name="jqmaster",
    epilog=f"Exit codes  {_EXITS}",
    no_args_is_help=True,
    # A traceback with local variables would show tokens and arguments.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
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


app.command()(serve.serve)
app.command()(worker.worker)
app.command()(outbox.outbox)
app.command()(jobs.enqueue)
app.command("jobs")(jobs.list_jobs)
app.command()(jobs.job)
app.command()(why.why)
app.command()(jobs.result)
app.command()(jobs.cancel)
app.command()(jobs.retry)
app.command()(jobs.run)
app.command("set")(jobs.set_job)
app.command()(take.take)
app.command()(take.done)
app.command()(jobs.delete)
app.command()(bulk.bulk)
app.command()(bulk.actions)
app.command()(stats.stats)
app.command()(top.top)
app.command()(stats.names)
app.add_typer(failures.app, name="failures")
app.add_typer(workers.app, name="workers")
app.add_typer(masters.app, name="masters")
app.add_typer(constraints.app, name="constraints")
app.command()(pauses.pause)
app.command()(pauses.resume)
app.command("pauses")(pauses.list_pauses)
app.add_typer(batches.app, name="batches")
app.add_typer(definitions.app, name="definitions")
app.add_typer(events.app, name="events")
app.add_typer(challenges.app, name="challenges")
app.add_typer(webhooks.app, name="webhooks")
app.command()(apply.plan)
app.command()(apply.apply)
app.add_typer(live_settings.app, name="settings")
app.command()(audit.audit)
app.add_typer(tokens.app, name="tokens")
app.add_typer(tokens.app, name="token", hidden=True)  # its name until 0.1
app.add_typer(users.app, name="users")
app.add_typer(users.app, name="user", hidden=True)  # its name until 0.1
app.command()(store.doctor)
app.command()(store.fsck)
app.command()(healthcheck.healthcheck)
app.add_typer(conformance.app, name="conformance")
app.command()(contract.openapi)
app.command()(contract.version)
