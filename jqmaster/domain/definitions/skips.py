"""Skips that nobody chose: a definition that skips again and again does not do its work."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from jqmaster.domain.definitions.run import RunOutcome, RunReason, RunRecord

# How many skips in a row count as a fault.
SKIPS_OF_A_FAULT: Final = 3
# Reasons that nobody decided on. A pause, a calendar or a later event is a decision, and not a fault.
UNCHOSEN: Final = frozenset({RunReason.OVERLAP, RunReason.BACKLOG_FULL, RunReason.ARGUMENT_TOO_LARGE})


def skips_in_a_row(runs: Sequence[RunRecord]) -> Sequence[RunRecord]:
    """Return the unbroken series of newest runs that are skips nobody chose. `runs`: newest first. Runs that
    somebody asked for are ignored."""
    by_schedule = [run for run in runs if run.reason not in (RunReason.MANUAL, RunReason.BACKFILL)]
    return list(takewhile(_is_unchosen, by_schedule))


def is_skipping(runs: Sequence[RunRecord]) -> bool:
    """Return whether the newest skips count as a fault."""
    return len(skips_in_a_row(runs)) >= SKIPS_OF_A_FAULT


def _is_unchosen(run: RunRecord) -> bool:
    return run.outcome is RunOutcome.SKIPPED and run.reason in UNCHOSEN
