"""`manage.py jq_outbox`: push the jobs that wait in the outbox."""

import json
import signal
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from worker_sdk.outbox.relay import Relay
from worker_sdk.transport.standard_streams import escape_unencodable


class Command(BaseCommand):
    """Relay the jobs that wait in the outbox of a database."""

    help = "Push the jobs that a crash or an outage left in the outbox. Any number of these commands may run at a time."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="Alias in TASKS.")
        parser.add_argument(
            "--poll", type=float, default=1.0, help="Seconds between two checks of the outbox."
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--once", action="store_true", help="Push the jobs that wait now, and exit.")
        what.add_argument(
            "--status", action="store_true", help="Print the waiting and the refused jobs as JSON."
        )
        what.add_argument("--retry-stuck", action="store_true", help="Let refused jobs wait again, and exit.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Relay the outbox, or do once what an option says."""
        escape_unencodable()
        from worker_sdk.django.backend_outbox import relaying_outbox
        from worker_sdk.django.worker import backends

        try:
            (backend,) = backends([options["backend"]])
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        outbox = relaying_outbox(backend.outbox)
        if options["status"]:
            refused = [{"id": job_id, "error": error} for job_id, error in outbox.stuck()]
            self.stdout.write(json.dumps({**asdict(outbox.stats()), "refused": refused}))
        elif options["retry_stuck"]:
            self.stdout.write(f"{outbox.retry_stuck()} jobs wait again")
        elif options["once"]:
            self._push_once(Relay(outbox))
        else:
            relay = Relay(outbox, poll_s=options["poll"])
            self.stdout.write(f"relaying the outbox in the database {outbox.using}")
            self.stdout.flush()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: relay.stop())
            relay.run()

    def _push_once(self, relay: Relay) -> None:
        done = relay.run_all()
        if done.failure is not None:
            raise CommandError(f"{done.pushed} jobs pushed; {done.failure}")
        self.stdout.write(f"{done.pushed} jobs pushed, {done.set_aside} refused")
