"""Values that a shell completes."""


def states(incomplete: str) -> list[str]:
    """Return the states of jobs that begin with this text."""
    from jqmaster.domain.jobs.job import JobState

    return [str(state) for state in JobState if str(state).startswith(incomplete)]
