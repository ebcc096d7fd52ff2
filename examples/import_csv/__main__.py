"""Import many users, and watch the progress: `python -m examples.import_csv --rows 1000000`."""

import argparse
import csv
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.import_csv.tasks import import_users
from worker_sdk import JobHandle, JobProgress
from worker_sdk.transport.standard_streams import escape_unencodable

WIDTH = 40


def main() -> None:
    escape_unencodable()
    parser = argparse.ArgumentParser(description="Enqueue an import, and show its progress.")
    parser.add_argument("--rows", type=int, default=500_000)
    rows = parser.parse_args().rows
    with TemporaryDirectory() as directory:
        file = Path(directory, "users.csv")
        write_users(file, rows)
        handle = import_users.enqueue(str(file), str(Path(directory, "users.db")))
        watch(handle)
        print(f"{handle.get():,} users were imported")


def write_users(file: Path, rows: int) -> None:
    """Write a CSV file with this many users."""
    with file.open("w", newline="") as lines:
        csv.writer(lines).writerows((number, f"user {number}") for number in range(rows))


def watch(handle: JobHandle[int], every_s: float = 0.2) -> None:
    """Draw a progress bar until the job is over."""
    is_over = False
    while not is_over:
        told = handle.progress()
        is_over = handle.status not in ("scheduled", "ready", "running", "retrying")
        if told is not None:
            sys.stdout.write(f"\r{bar(told)}")
            sys.stdout.flush()
        if not is_over:
            time.sleep(every_s)
    print()


def bar(told: JobProgress) -> str:
    """Return the reported progress as a line of text."""
    share = told.fraction or 0.0
    return f"[{'#' * round(share * WIDTH):<{WIDTH}}] {share:4.0%}  {told.message}"


if __name__ == "__main__":
    main()
