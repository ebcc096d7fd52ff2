"""Log lines of a master: one event, one line."""

import logging

from jqmaster.cli.output import inert


class LineFormatter(logging.Formatter):
    """Whatever comes from outside must not begin a line of its own; tracebacks, which are ours, may."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  its name in logging
        record.message = inert(record.message).replace("\n", "\\n")
        return super().formatMessage(record)


def set_up(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
