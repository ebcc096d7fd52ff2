"""Values that a shell completes."""

from collections.abc import Callable


def one_of(*values: str) -> Callable[[str], list[str]]:
    """Return a function that completes one of these values."""

    def completed(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return completed


def states(incomplete: str) -> list[str]:
    """Return the states of jobs that begin with this text."""
    from jqmaster.domain.jobs.job import JobState

    return [str(state) for state in JobState if str(state).startswith(incomplete)]
