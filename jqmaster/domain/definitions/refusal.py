"""The error of a definition that is refused."""

from typing import Final

from jqmaster.domain.matching.checks import Loc

ROOT: Final[Loc] = ()


class DefinitionError(ValueError):
    """A definition that is refused. `loc`: the path to the faulty part; `msg`: the rule that it breaks."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(f"{'.'.join(map(str, loc))}: {msg}" if loc else msg)
        self.loc = loc
        self.msg = msg
