"""Counts of the log lines that one master received."""

from dataclasses import dataclass


@dataclass(slots=True)
class LogFigures:
    """Counts of lines: `kept`; `dropped` because of limits of masters or workers; `stale`, from claims that are
    over."""

    kept: int = 0
    dropped: int = 0
    stale: int = 0


@dataclass(slots=True)
class ArchiveFigures:
    """Counts of one master: `logs` and `lines` that it moved to the archive, logs of deleted jobs that it `erased`
    there, `failures` of the archive, logs that could not be read (`damaged`), and lines that were removed because they
    had waited for too long (`given_up`)."""

    logs: int = 0
    lines: int = 0
    erased: int = 0
    failures: int = 0
    damaged: int = 0
    given_up: int = 0
