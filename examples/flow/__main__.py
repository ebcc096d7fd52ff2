"""Rank the words of many files: `python -m examples.flow docs/*.md`."""

import argparse

from examples.flow.tasks import count, join, rank, report
from worker_sdk import After, Flow, FlowHandles, JobSkipped, TaskJob
from worker_sdk.transport.standard_streams import escape_unencodable


def main() -> None:
    escape_unencodable()
    parser = argparse.ArgumentParser(
        description="Enqueue a flow that ranks the words of files, and wait for it."
    )
    parser.add_argument("files", nargs="+")
    parser.add_argument("--top", type=int, default=5)
    options = parser.parse_args()
    print(ranked(options.files, options.top))


def ranked(files: list[str], top: int = 5) -> str:
    """Run the flow, and return the most frequent words or the errors, as text."""
    flow = Flow()
    counts = {file: flow.add(count.to_job(file)) for file in files}
    total = flow.add(join.to_job(), after=list(counts.values()))
    ranks = flow.add(rank.to_job(top=top), after=total)
    faults = flow.add(report.to_job(), after=After(list(counts.values()), when="finished"))
    return outcome(flow.enqueue(), counts, ranks, faults)


def outcome(
    handles: FlowHandles[object],
    counts: dict[str, TaskJob[dict[str, int]]],
    ranks: TaskJob[list[tuple[str, int]]],
    faults: TaskJob[dict[str, str]],
) -> str:
    """Wait until the flow has ended, and return the most frequent words or the errors, as text."""
    try:
        return "\n".join(f"{number:>7,} {word}" for word, number in handles[ranks].get())
    except JobSkipped:
        # One of the files could not be counted, so no job joined or ranked the counts.
        names = {job.id: file for file, job in counts.items()}
        return "\n".join(f"{names[job_id]}: {why}" for job_id, why in handles[faults].get().items())


if __name__ == "__main__":
    main()
