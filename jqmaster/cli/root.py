"""All commands, in the order in which a newcomer meets them."""

import typer

from jqmaster.cli import (
    audit,
    bulk,
    constraints,
    contract,
    exits,
    jobs,
    live_settings,
    masters,
    serve,
    stats,
    store,
    tokens,
    users,
    why,
    worker,
    workers,
)

_EXITS = "  ·  ".join(f"{code}: {meaning}" for code, meaning in exits.TABLE)

app = typer.Typer(
    name="jqmaster",
    help="A job queue: push jobs over HTTP, keep them safe in Valkey or Redis, get them done.",
    epilog=f"Exit codes  {_EXITS}",
    no_args_is_help=True,
    # A traceback with local variables would show tokens and arguments.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve.serve)
app.command()(worker.worker)
app.command()(jobs.enqueue)
app.command("jobs")(jobs.list_jobs)
app.command()(jobs.job)
app.command()(why.why)
app.command()(jobs.result)
app.command()(jobs.cancel)
app.command()(jobs.retry)
app.command()(bulk.bulk)
app.command()(bulk.actions)
app.command()(stats.stats)
app.command()(stats.names)
app.command()(stats.failures)
app.add_typer(workers.app, name="workers")
app.add_typer(masters.app, name="masters")
app.add_typer(constraints.app, name="constraints")
app.add_typer(live_settings.app, name="settings")
app.command()(audit.audit)
app.add_typer(tokens.app, name="token")
app.add_typer(users.app, name="user")
app.command()(store.doctor)
app.command()(store.fsck)
app.command()(contract.openapi)
app.command()(contract.version)
