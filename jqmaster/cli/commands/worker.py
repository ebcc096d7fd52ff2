"""`jqmaster worker`: run the worker object of a module, in one or several processes."""

import asyncio
import contextlib
import importlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from jqmaster.cli.console import exits
from jqmaster.cli.console.http import TokenOption, read_token
from jqmaster.cli.console.objects import discovered, object_at

# A worker may be given any grace for its running jobs. A second signal ends it sooner.
END_WITHIN_S: Final = 24 * 3600.0


def worker(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:OBJECT]",
            help="A Worker or Tasks, for example app.tasks:tasks, in the current directory.",
        ),
    ] = None,
    *,
    autodiscover: Annotated[
        list[str] | None,
        typer.Option(
            "--autodiscover",
            metavar="PACKAGE",
            help="Run all Tasks in the modules of this package that are named tasks. Can be repeated.",
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option(
            "--command",
            metavar="NAME=ARGV",
            help="Run a command for the jobs of this name: 'report.nightly=python report.py --day {day}'. "
            "{day} is an argument of the job. Can be repeated.",
        ),
    ] = None,
    master: Annotated[
        list[str] | None,
        typer.Option(
            "--master",
            envvar="JQMASTER_URL",
            help="Address of the master, instead of the object's. Can be repeated.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            envvar="JQMASTER_WORKER_HOST",
            help="Address to listen on. Default: 127.0.0.1, which only a master on this machine reaches.",
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. 0 lets the system choose one.")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="JQMASTER_WORKER_URL",
            help="URL at which the master reaches this worker, if it differs from the listening address.",
        ),
    ] = None,
    pull: Annotated[
        bool | None,
        typer.Option(
            "--pull",
            envvar="JQMASTER_WORKER_PULL",
            help="Poll the master for jobs instead of listening. Use it where the master cannot reach this worker.",
        ),
    ] = None,
    max_jobs: Annotated[int | None, typer.Option(help="Maximum number of jobs at a time.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Label that jobs can require, in addition to the object's. Can be repeated.",
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds that running jobs have to finish when the worker is told to end."),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            help="Number of worker processes, each with its own --max-jobs. Use several for CPU-bound handlers.",
        ),
    ] = 1,
    burst: Annotated[
        bool,
        typer.Option("--burst", help="Run until nothing is left to do, and exit; 1 if a job failed."),
    ] = False,
    burst_wait: Annotated[
        float,
        typer.Option(min=0.1, help="With --burst: exit after this many seconds without a job."),
    ] = 5.0,
    reload: Annotated[
        bool,
        typer.Option("--reload", help="Start again when a Python file below this directory changes."),
    ] = False,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(
            envvar="JQMASTER_WORKER_LOG_LEVEL",
            help="Lowest level to log. debug tells the way of each job through this worker. Default: info.",
        ),
    ] = None,
    token: TokenOption = None,
) -> None:
    """Run the worker_sdk.Worker or worker_sdk.Tasks at MODULE:OBJECT."""
    from jqmaster.cli.process import first_process

    first_process.give_way()
    if target is None and not autodiscover and not command:
        exits.fail(exits.USAGE, "name MODULE:OBJECT, a package with --autodiscover, or a --command")
    if reload:
        from jqmaster.cli.process.reloader import Reloader

        given_arguments = [one for one in sys.argv[1:] if one != "--reload"]
        raise typer.Exit(Reloader(given_arguments, Path.cwd()).run())
    given = {
        "master": master or None,
        "host": host,
        "port": port,
        "url": url,
        "pull": pull,
        "max_jobs": max_jobs,
        "labels": _labels(label or []),
        "grace_s": grace,
        "token": read_token(token),
        "packages": autodiscover or None,
        "commands": command or None,
        "log_level": log_level,
    }
    if burst:
        if processes > 1:
            exits.fail(exits.USAGE, "--burst runs one process; start several commands instead")
        with _errors_told():
            _run_burst(_configured(target, given), burst_wait)
    elif processes > 1:
        asyncio.run(_run_several(target, given, processes))
    else:
        with _errors_told():
            _configured(target, given).run()


def _run_burst(found: Any, idle_s: float) -> None:
    # Import it by name: the packages do not import one another.
    unavailable = importlib.import_module("worker_sdk").UnavailableError
    try:
        failed = found.run_burst(idle_s)
    except unavailable as error:
        exits.fail(exits.UNREACHABLE, str(error))
    if failed:
        others = f" and {len(failed) - 3} others" if len(failed) > 3 else ""
        exits.fail(exits.FAILED, f"{len(failed)} jobs failed here last: {', '.join(failed[:3])}{others}")


@contextlib.contextmanager
def _errors_told() -> Iterator[None]:
    """End the command with one line for what keeps a worker from starting, or from being registered."""
    # Import it by name: the packages do not import one another.
    refused_error = importlib.import_module("worker_sdk").RefusedError
    try:
        yield
    except refused_error as error:
        exits.fail(exits.FAILED, f"no master takes this worker: {error}")
    except (OSError, ValueError) as error:
        text = str(error) if isinstance(error, OSError) and not error.errno else None
        exits.fail(exits.USAGE, text or getattr(error, "strerror", None) or str(error))


def run_one(target: str | None, given: Mapping[str, Any], ready: Callable[[], None], *, number: int) -> None:
    """Run one of several processes, the `number`th. Call `ready` once the worker is known to be valid."""
    found = _configured(target, given)
    if not found.pull:
        if found.url is not None:
            exits.fail(exits.USAGE, "several workers cannot share one --url; omit it, or use --pull")
        if found.port:
            found.port += number
    ready()
    with _errors_told():
        found.run()


async def _run_several(target: str | None, given: Mapping[str, Any], processes: int) -> None:
    from jqmaster.cli.console import logs
    from jqmaster.cli.process.supervisor import ChildFailedError, Supervisor
    from jqmaster.lifecycle import running

    logs.set_up(given["log_level"] or "info")
    told = asyncio.Event()
    # Wait as long as the workers' own grace allows: each worker ends in good order by itself, and a second signal
    # shortens it.
    supervisor = Supervisor(
        [
            {"command": "worker", "target": target, "options": given, "number": number}
            for number in range(processes)
        ],
        end_within_s=END_WITHIN_S,
    )
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(signal_number) is signal.SIG_IGN:  # `nohup` sets SIGHUP like this
            continue
        loop.add_signal_handler(
            signal_number, lambda: supervisor.terminate() if told.is_set() else told.set()
        )
    try:
        async with running([supervisor]):
            await told.wait()
    except ChildFailedError as error:  # the process has printed the reason
        raise typer.Exit(error.code) from None
    except OSError as error:
        exits.fail(exits.REFUSED, str(error))


def _configured(target: str | None, given: Mapping[str, Any]) -> Any:
    if given.get("log_level"):
        importlib.import_module("worker_sdk.environment").set_up_logs(given["log_level"])
    sdk = importlib.import_module("worker_sdk")
    found = load_worker(target) if target is not None else sdk.Worker()
    if packages := given.get("packages"):
        found.run_tasks(*(one for package in packages for one in discovered(package)))
    if commands := given.get("commands"):
        found.run_tasks(_commands(commands))
    for name, value in given.items():
        if name in ("packages", "commands", "labels", "log_level"):
            continue
        # Options given here take precedence over the object's own.
        if value is not None:
            setattr(found, name, value)
    found.labels.update(given.get("labels") or {})
    try:
        names = found.names
    except (TypeError, ValueError) as error:
        exits.fail(exits.USAGE, str(error))
    if not names:
        exits.fail(
            exits.USAGE,
            f"{target} has no handlers and tasks: import the modules that declare them, or name their package with "
            "--autodiscover",
        )
    return found


def _labels(given: list[str]) -> dict[str, str]:
    """Return the labels of `--label`. End the command if one has no name or no value."""
    labels = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals:
            exits.fail(exits.USAGE, f"--label {one}: expected NAME=VALUE")
        labels[name] = value
    return labels


def _commands(given: list[str]) -> Any:
    """Return the Tasks of `--command`. Ends the command for one that cannot be run."""
    tasks = importlib.import_module("worker_sdk").Tasks()
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            exits.fail(exits.USAGE, f"--command {one}: expected NAME=ARGV")
        try:
            tasks.command(name, shlex.split(text))
        except ValueError as error:
            exits.fail(exits.USAGE, f"--command {one}: {error}")
    return tasks


def load_worker(target: str) -> Any:
    """The Worker that `module:name` names, or one for the Tasks there. Ends the command when there is neither."""
    found = object_at(target)
    # Import it by name: the packages do not import one another.
    sdk = importlib.import_module("worker_sdk")
    if isinstance(found, sdk.Tasks):
        return sdk.Worker(tasks=found)
    if not isinstance(found, sdk.Worker):
        exits.fail(exits.USAGE, f"{target} is neither a worker_sdk.Worker nor a worker_sdk.Tasks")
    return found
