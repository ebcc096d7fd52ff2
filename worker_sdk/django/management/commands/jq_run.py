"""`manage.py jq_run COMMAND`: run a management command as a job."""

import sys
from argparse import REMAINDER
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from worker_sdk.errors import NotFinished, WorkerSdkError
from worker_sdk.transport.standard_streams import escape_unencodable


class Command(BaseCommand):
    """Enqueue a job that runs a management command in a worker."""

    help = (
        "Run a management command as a job. Workers run the commands that OPTIONS['commands'] in TASKS lists."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="Alias in TASKS.")
        parser.add_argument(
            "--wait",
            type=float,
            default=None,
            help="Seconds to wait for the end of the command, whose output is then printed.",
        )
        parser.add_argument(
            "--timeout", type=float, default=3600.0, help="Maximum time of the command in seconds."
        )
        parser.add_argument("--max-retry", type=int, default=0, help="Maximum number of retries.")
        parser.add_argument("command_name", metavar="COMMAND", help="Name of the management command.")
        parser.add_argument("arguments", nargs=REMAINDER, help="Its arguments.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Enqueue the job."""
        escape_unencodable()
        from worker_sdk.django.commands import COMMAND_PREFIX
        from worker_sdk.django.worker import backends

        command = options["command_name"]
        try:
            (backend,) = backends([options["backend"]])
            if command not in backend.options.get("commands", ()):
                raise CommandError(
                    f"{command} is not listed in TASKS[{backend.alias!r}]['OPTIONS']['commands']: no worker runs it"
                )
            client = backend.client()
            job_id = client.enqueue(
                COMMAND_PREFIX + command,
                {"args": options["arguments"]},
                timeout=options["timeout"],
                max_retry=options["max_retry"],
                keep_result=options["wait"] is not None,
            )
            if options["wait"] is None:
                self.stdout.write(job_id)
                return
            result = client.result(job_id, wait=options["wait"])
        except NotFinished as exc:
            raise CommandError(str(exc), returncode=3) from exc
        except (WorkerSdkError, ValueError) as exc:
            raise CommandError(str(exc)) from exc
        if result is None:
            raise CommandError(f"job {job_id} has no result")
        if not result.is_success:
            raise CommandError(result.message or "the job failed")
        sys.stdout.write(result.result["output"])
