"""Run the worker object of a module, in one or several processes."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from worker_sdk import RefusedError, Tasks, UnavailableError, Worker
from worker_sdk.command_line.ends import FAILED, OK, REFUSED, UNREACHABLE, USAGE, CommandError
from worker_sdk.command_line.objects import discovered, object_at
from worker_sdk.command_line.secrets_in_files import read_token
from worker_sdk.environment import masters_or_default, set_up_logs, shares_of
from worker_sdk.transport.namespaces import split_checked
from worker_sdk.worker import first_process

# How long to wait for the end of a worker, which may be given any grace for its running jobs. A second signal ends it
# sooner.
END_WITHIN_S: Final = 24 * 3600.0
# Options of the command that are not copied to the worker's attribute of the same name.
_APART: Final = frozenset({"packages", "commands", "labels", "log_level"})


def run_worker(options: Mapping[str, Any], *, module: str) -> int:
    """Run the worker that the options of `command_line.options` describe, until a signal ends it. Return the exit code.
    Raise CommandError if the worker cannot start.

    `module`: the module of the command; --reload runs this module again.
    """
    first_process.give_way()
    target = options["target"]
    if target is None and not options["autodiscover"] and not options["command"]:
        raise CommandError(USAGE, "name MODULE:OBJECT, a package with --autodiscover, or a --command")
    if options["reload"]:
        from worker_sdk.command_line.reloader import Reloader

        arguments = [one for one in sys.argv[1:] if one != "--reload"]
        return Reloader(module, arguments, Path.cwd()).run()
    if options["namespace"]:
        # The module with the target, the jobs that it pushes, and the worker's other processes read this variable.
        os.environ["JQMASTER_NAMESPACE"] = options["namespace"]
    given = {
        "master": _masters(options["master"]) if options["master"] else None,
        "namespaces": _shares(options["namespaces"]) if options["namespaces"] else None,
        "host": options["host"],
        "port": options["port"],
        "url": options["url"],
        "pull": options["pull"],
        "max_jobs": options["max_jobs"],
        "labels": _labels(options["label"] or []),
        "grace_s": options["grace"],
        "token": read_token(options["token"]),
        "packages": options["autodiscover"] or None,
        "commands": options["command"] or None,
        "log_level": options["log_level"],
    }
    if options["burst"]:
        if options["processes"] > 1:
            raise CommandError(USAGE, "--burst runs one process; start several commands instead")
        with _start_errors():
            _run_burst(_configured(target, given), options["burst_wait"])
    elif options["processes"] > 1:
        return asyncio.run(_run_several(target, given, options["processes"]))
    else:
        with _start_errors():
            _configured(target, given).run()
    return OK


def run_one(target: str | None, given: Mapping[str, Any], ready: Callable[[], None], *, number: int) -> None:
    """Run process `number` of several. Call `ready` once the worker is known to be valid."""
    with _start_errors():
        found = _configured(target, given)
        if not found.pull:
            if found.url is not None:
                raise CommandError(USAGE, "several workers cannot share one --url; omit it, or use --pull")
            if found.port:
                found.port += number
        ready()
        found.run()


def load_worker(target: str) -> Worker:
    """Return the Worker that `module:name` names, or a new Worker for the Tasks there. Raise CommandError if it names
    something else."""
    found = object_at(target)
    if isinstance(found, Tasks):
        return Worker(tasks=found)
    if not isinstance(found, Worker):
        raise CommandError(USAGE, f"{target} is neither a worker_sdk.Worker nor a worker_sdk.Tasks")
    return found


def _run_burst(found: Worker, idle_s: float) -> None:
    try:
        failed = found.run_burst(idle_s)
    except UnavailableError as error:
        raise CommandError(UNREACHABLE, str(error)) from None
    if failed:
        others = f" and {len(failed) - 3} others" if len(failed) > 3 else ""
        raise CommandError(
            FAILED, f"{len(failed)} jobs failed in their last run here: {', '.join(failed[:3])}{others}"
        )


@contextlib.contextmanager
def _start_errors() -> Iterator[None]:
    """Convert errors of a worker's start and registration to a CommandError with one line."""
    try:
        yield
    except RefusedError as error:
        raise CommandError(REFUSED, f"no master accepts this worker: {error}") from error
    except OSError as error:
        from worker_sdk.transport.tls import TlsFileError

        is_given = isinstance(error, TlsFileError) or not error.errno
        raise CommandError(USAGE if is_given else REFUSED, error.strerror or str(error)) from error
    except ModuleNotFoundError as error:
        # The SDK's own errors name the package to install, so show only their text. Show the traceback if an import in
        # the user's code fails.
        if error.__cause__ is None:
            raise
        raise CommandError(USAGE, str(error)) from error
    except ValueError as error:
        raise CommandError(USAGE, str(error)) from error


async def _run_several(target: str | None, given: Mapping[str, Any], processes: int) -> int:
    from worker_sdk.command_line.supervisor import ChildFailedError, Supervisor

    set_up_logs(given["log_level"])
    told = asyncio.Event()
    # A worker ends by itself within its own grace, so do not kill it sooner. A second signal shortens the grace.
    supervisor = Supervisor(
        "worker_sdk.command_line.child",
        [{"target": target, "options": given, "number": number} for number in range(processes)],
        end_within_s=END_WITHIN_S,
    )
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(signal_number) is signal.SIG_IGN:  # `nohup` makes the process ignore SIGHUP
            continue
        loop.add_signal_handler(
            signal_number, lambda: supervisor.terminate() if told.is_set() else told.set()
        )
    try:
        await supervisor.start()
        await told.wait()
    except ChildFailedError as error:  # the child has already printed the reason
        return error.code
    except OSError as error:
        raise CommandError(REFUSED, str(error)) from error
    finally:
        await supervisor.stop()
    return OK


def _configured(target: str | None, given: Mapping[str, Any]) -> Worker:
    if given.get("log_level"):
        set_up_logs(given["log_level"])
    found = load_worker(target) if target is not None else Worker()
    if packages := given.get("packages"):
        found.run_tasks(*(one for package in packages for one in discovered(package)))
    if commands := given.get("commands"):
        found.run_tasks(_commands(commands))
    for name, value in given.items():
        # Options of the command take precedence over the attributes of the object.
        if name not in _APART and value is not None:
            setattr(found, name, value)
    found.labels.update(given.get("labels") or {})
    try:
        names = found.names
    except (TypeError, ValueError) as error:
        raise CommandError(USAGE, str(error)) from error
    if not names:
        raise CommandError(
            USAGE,
            f"{target} has no handlers or tasks: import the modules that declare them, or name their package with "
            "--autodiscover",
        )
    return found


def _masters(given: list[str]) -> Sequence[str]:
    """Return the addresses of `--master` in the namespace. An option may hold several, separated by blanks. Raise
    CommandError if an address or the name is invalid."""
    addresses = [address for one in given for address in one.split()]
    try:
        for address in addresses or given:
            split_checked(address)
        return masters_or_default(addresses)
    except ValueError as error:
        raise CommandError(USAGE, str(error)) from None


def _shares(given: list[str]) -> dict[str, int]:
    """Return the shares of `--namespaces`. Raise CommandError for a share in another form."""
    try:
        return shares_of(given)
    except ValueError as error:
        raise CommandError(USAGE, f"--namespaces: {error}") from None


def _labels(given: list[str]) -> dict[str, str]:
    """Return the labels of `--label`. Raise CommandError for a label without a name or a value."""
    labels = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise CommandError(USAGE, f"--label {one}: expected NAME=VALUE")
        labels[name] = value
    return labels


def _commands(given: list[str]) -> Tasks:
    """Return the Tasks of `--command`. Raise CommandError for a command that cannot be run."""
    tasks = Tasks()
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise CommandError(USAGE, f"--command {one}: expected NAME=ARGV")
        try:
            tasks.command(name, shlex.split(text))
        except ValueError as error:
            raise CommandError(USAGE, f"--command {one}: {error}") from None
    return tasks
