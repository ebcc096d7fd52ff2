"""Start the site with its workers, post to 100,000 followers, and print how long that takes."""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.microblog.postgres import running_postgres
from examples.microblog.system import FEEDS_AT_ONCE, Site, environment, running_site
from examples.stdlib.__main__ import free_port
from worker_sdk.transport.standard_streams import escape_unencodable


def main() -> None:
    escape_unencodable()
    parser = argparse.ArgumentParser(prog="examples.microblog", description=__doc__)
    parser.add_argument("--followers", type=int, default=100_000, help="followers of the author")
    parser.add_argument(
        "--postgres",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="use PostgreSQL instead of SQLite: a server of its own, or a database that is empty, such as "
        "postgresql://user@host:5432/name",
    )
    parser.add_argument("--workers", type=int, default=2, help="processes that run jobs")
    parser.add_argument(
        "--at-once",
        type=int,
        default=FEEDS_AT_ONCE,
        help="number of feeds that are written at a time; 0: as many as the workers can write",
    )
    parser.add_argument("--port", type=int, default=8000, help="port of the site; a free one if it is taken")
    parser.add_argument(
        "--once", action="store_true", help="end by itself; exit status 0 only if all came out as expected"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup, SIGHUP is ignored. Keep it ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda received, _: sys.exit(128 + received))
    try:
        sys.exit(show(options))
    except KeyboardInterrupt:
        # Without --once, Ctrl-C is the usual way to end.
        sys.exit(128 + signal.SIGINT if options.once else 0)


def show(options: argparse.Namespace) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="jqmaster-microblog-", ignore_cleanup_errors=True) as directory,
        database(Path(directory), options.postgres) as address,
    ):
        say(f"{address.partition(':')[0]}, {options.followers:,} followers")
        ports = (free_port(options.port), free_port(0), free_port(0))
        with running_site(
            Path(directory),
            address,
            ports,
            workers=options.workers,
            followers=options.followers,
            at_once=options.at_once or None,
        ) as site:
            os.environ.update(environment(address, site.master_url, site.outside_url))
            import django

            django.setup()
            from examples.microblog.story import tell

            faults = tell(site, options.followers, say)
            for fault in faults:
                say(f"not as expected: {fault}")
            if not options.once:
                say(f"\nPost and look at {site.url}/ada and {site.url}/reader1, until Ctrl-C.")
                say(f"The jobs are at {site.master_url}/.")
                wait(site)
    return 1 if faults else 0


@contextlib.contextmanager
def database(directory: Path, postgres: str | None) -> Iterator[str]:
    """Yield the address of the database. `postgres`: None for SQLite, an address, or "" for a new server."""
    if postgres is None:
        yield f"sqlite:///{directory / 'microblog.sqlite3'}"
    elif postgres:
        yield postgres
    else:
        with running_postgres(free_port(0)) as address:
            yield address


def wait(site: Site) -> None:
    """Wait until one of the site's processes has ended."""
    while True:
        site.check_alive()
        time.sleep(1)


def say(text: Any) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
