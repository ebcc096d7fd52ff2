"""Counts of log lines, as one master took them in."""

from dataclasses import dataclass


@dataclass(slots=True)
class LogFigures:
    """`kept` lines; `dropped`, by the limits here and by workers; `stale` ones of claims that are over."""

    kept: int = 0
    dropped: int = 0
    stale: int = 0
