"""Enqueue many jobs from JSON lines, with bulk calls."""

import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import MasterSession

_JOBS_PER_BULK: Final = 1_000


def enqueue_lines(http: MasterSession, source: str, options: Mapping[str, Any], keep_result: bool) -> None:
    """Enqueue each line of `source` as a job, with `options` as defaults. Print the IDs.

    Every job gets an ID before it is sent, so that a bulk call can be repeated. If a call fails, the error names
    the first line of this call. The jobs of earlier lines are enqueued.
    """
    given = {field: value for field, value in options.items() if value is not None}
    if keep_result:
        given["keep_result"] = True
    count = 0
    jobs = _jobs_in(source, given)
    while bulk := list(itertools.islice(jobs, _JOBS_PER_BULK)):
        try:
            _, answer = http.call("POST", "/api/jobs/bulk", body={"jobs": bulk}, timeout_s=120)
        except typer.Exit:
            output.echo(
                f"  {count} jobs were enqueued; repeat from line {count + 1} of the file (blank lines not counted)",
                is_error=True,
            )
            raise
        count += len(bulk)
        for job_id in answer["ids"]:
            http.say({"id": job_id}, job_id)


def _jobs_in(source: str, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    from jqmaster.domain.ids import new_id

    try:
        with sys.stdin if source == "-" else Path(source).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    job = json.loads(line)
                except (ValueError, RecursionError) as error:
                    exits.fail(exits.USAGE, f"{source}, line {number}: not JSON ({error})")
                if not isinstance(job, dict) or "name" not in job:
                    exits.fail(
                        exits.USAGE,
                        f'{source}, line {number}: expected a job such as {{"name": "mail.send"}}',
                    )
                yield {"id": new_id(), **given, **job}
    except (OSError, UnicodeDecodeError) as error:
        exits.fail(exits.USAGE, f"cannot read {source}: {error}")
