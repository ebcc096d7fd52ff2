"""The log of a job in tests: it is kept, and no master is asked."""


class KeptLog(list[tuple[str, str]]):
    """Level and text of each line, in order."""

    def write(self, at_s: float, level: str, text: str) -> None:
        """Keep a line, as a master would."""
        self.append((level, text))
