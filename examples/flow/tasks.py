"""The tasks of the flow. Run them with `jqmaster worker examples.flow.tasks:tasks --master URL`."""

import re
from collections import Counter
from pathlib import Path

from worker_sdk import INJECTED, INPUT, INPUTS, Context, Tasks

tasks = Tasks()


@tasks.task("words.count", max_retry=0)
def count(file: str) -> dict[str, int]:
    """Count the words of a file."""
    return Counter(re.findall(r"[a-z]{4,}", Path(file).read_text("utf-8").lower()))


@tasks.task("words.join", keep_result=True)
def join(counts: list[dict[str, int]] = INPUTS) -> dict[str, int]:
    """Join the counts of all files, which are the results of the jobs for which this job waits."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total.most_common(100))


@tasks.task("words.rank", keep_result=True)
def rank(total: dict[str, int] = INPUT, *, top: int = 5) -> list[tuple[str, int]]:
    """Return the most frequent words."""
    return Counter(total).most_common(top)


@tasks.task("words.report", keep_result=True)
def report(ctx: Context = INJECTED) -> dict[str, str]:
    """Return the files that could not be counted, by job. This runs whatever the outcomes of the other jobs."""
    return {
        one.job_id: one.outcome.message or "" if one.outcome else ""
        for one in ctx.inputs
        if not one.is_success
    }
