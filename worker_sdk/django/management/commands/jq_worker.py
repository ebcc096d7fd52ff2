"""`manage.py jq_worker`: run the tasks of this site."""

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import autoreload
from django.utils.module_loading import autodiscover_modules

from worker_sdk.environment import shares_of
from worker_sdk.transport.standard_streams import escape_unencodable

# The environment variable that tells the child, which runs the jobs, the ID of the process that watches the files.
_CHILD: Final = "JQMASTER_RELOADED"
_LOOK_EVERY_S: Final = 0.5


class Command(BaseCommand):
    """Run the jobs of Django's tasks, and of the management commands that the settings list."""

    help = "Run the jobs of this site's tasks and of the management commands that TASKS lists."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--backend", action="append", help="Alias in TASKS. Can be repeated. Default: all."
        )
        parser.add_argument("--queue", action="append", help="Queue. Can be repeated. Default: all.")
        parser.add_argument("--master", action="append", help="Address of the master. Can be repeated.")
        parser.add_argument(
            "--namespaces",
            action="append",
            metavar="NAME=SHARE",
            help="A namespace to work in, with its share of the slots, such as shop=3. Can be repeated. "
            "Default: the namespaces of the backends.",
        )
        parser.add_argument("--host", default=None, help="Address to listen on.")
        parser.add_argument("--port", type=int, default=None, help="Port to listen on.")
        parser.add_argument("--url", default=None, help="URL at which the master reaches this worker.")
        parser.add_argument("--pull", action="store_true", help="Poll the master instead of listening.")
        parser.add_argument("--max-jobs", type=int, default=None, help="Maximum number of jobs at a time.")
        parser.add_argument(
            "--grace",
            type=float,
            default=None,
            metavar="SECONDS",
            help="Seconds that running jobs have to finish when the process is told to stop. Default: 25.",
        )
        parser.add_argument(
            "--label",
            action="append",
            metavar="NAME=VALUE",
            help="Label of this worker, which jobs can require. Can be repeated.",
        )
        parser.add_argument(
            "--burst",
            action="store_true",
            help="Run until nothing is left to do, and exit; 1 if a job failed.",
        )
        parser.add_argument("--no-outbox", action="store_true", help="Do not relay the outbox.")
        parser.add_argument(
            "--reload",
            action=argparse_boolean(),
            default=None,
            help="Start again when a file changes. Default: if DEBUG is set.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the worker until it is told to stop."""
        escape_unencodable()
        wants_reload = settings.DEBUG if options["reload"] is None else options["reload"]
        if wants_reload and not options["burst"] and _CHILD not in os.environ:
            autoreload.run_with_reloader(_supervise)
            return
        if _CHILD in os.environ:
            _end_with(int(os.environ[_CHILD]))
        from worker_sdk.django.worker import django_worker

        names = ("host", "port", "url", "max_jobs")
        given = {name: options[name] for name in names if options[name] is not None}
        if options["grace"] is not None:
            given["grace_s"] = options["grace"]
        if options["master"]:
            given["master"] = options["master"]
        if options["pull"]:
            given["pull"] = True
        if options["label"]:
            given["labels"] = dict(map(_label, options["label"]))
        try:
            if options["namespaces"]:
                given["namespaces"] = shares_of(options["namespaces"])
            worker = django_worker(
                options["backend"], options["queue"], relays=not options["no_outbox"], **given
            )
            names_of_jobs = worker.names
        except (ValueError, TypeError) as exc:
            raise CommandError(str(exc)) from exc
        if not names_of_jobs:
            raise CommandError("no tasks found: declare them in modules named tasks")
        many = "s" if len(names_of_jobs) > 1 else ""
        self.stdout.write(f"runs {len(names_of_jobs)} name{many}: {', '.join(sorted(names_of_jobs)[:10])}")
        self.stdout.flush()
        if options["burst"]:
            if failed := worker.run_burst():
                raise CommandError(
                    f"{len(failed)} jobs failed in their last run here: {', '.join(failed[:3])}"
                )
        else:
            worker.run()


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandError(f"--label {text}: expected NAME=VALUE")
    return name, value


def argparse_boolean() -> Any:
    """Return the action of argparse for a pair of options, `--x` and `--no-x`."""
    import argparse

    return argparse.BooleanOptionalAction


def _end_with(parent: int) -> None:
    """End this process in good order when its parent ends, even if SIGKILL ended the parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_EVERY_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _supervise() -> None:
    """Run the worker as a child of this process, which watches the files. When a file changes, Django restarts this
    process."""
    _end_with(os.getppid())
    try:
        # Import the modules only to watch their files. The child runs the tasks.
        autoreload.check_errors(autodiscover_modules)("tasks")
    except Exception:  # ignore what the site's modules raise: the child shows it
        sys.stderr.write("a module of tasks cannot be imported\n")
    child = subprocess.Popen(  # noqa: S603 - this command again
        [sys.executable, *autoreload.get_child_arguments()[1:]], env={**os.environ, _CHILD: str(os.getpid())}
    )

    def end() -> None:
        # Stop the child with SIGTERM, so that its running jobs get time to finish.
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            child.wait()

    atexit.register(end)
    if (code := child.wait()) > 0:
        # The child could not start, for example because a module cannot be imported. The next change of a file may fix
        # that.
        sys.stderr.write(f"the worker ended with exit code {code}; waiting for a change\n")
