"""`python -m worker_sdk worker`: run a worker where the SDK is installed without the server."""

import sys


def main() -> None:
    """Run the command line. It has the same exit codes as `jqmaster`."""
    from worker_sdk.command_line.arguments import PROGRAM, read_arguments
    from worker_sdk.command_line.ends import CommandError, tell
    from worker_sdk.command_line.worker import run_worker
    from worker_sdk.transport import standard_streams

    standard_streams.escape_unencodable()
    standard_streams.read_utf8()
    try:
        sys.exit(run_worker(read_arguments(sys.argv[1:]), module=PROGRAM.rpartition(" ")[2]))
    except CommandError as error:
        tell(error)
        sys.exit(error.code)


if __name__ == "__main__":
    main()
