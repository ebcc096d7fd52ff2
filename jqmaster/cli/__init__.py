"""The `jqmaster` command."""

import sys


def main() -> None:
    """Run the command line. Exit codes: `jqmaster.cli.console.exits`."""
    if sys.argv[1:2] == ["healthcheck"]:
        # Containers run this check every few seconds, so import nothing else. Importing the other commands would
        # cost more than an idle worker.
        from jqmaster.cli.console.alive import quick_exit_code

        if (code := quick_exit_code(sys.argv[2:])) is not None:
            sys.exit(code)
    from jqmaster.cli.root import app
    from worker_sdk.transport import standard_streams

    standard_streams.escape_unencodable()
    standard_streams.read_utf8()
    app()
