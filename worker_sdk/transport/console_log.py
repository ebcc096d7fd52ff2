"""Logging of a process to its standard error."""

import logging
import sys
from typing import Final

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def console_handler() -> logging.Handler:
    """Return a handler for the root logger that writes to standard error. It skips records that a handler of another
    logger has already written to the console, as Django's handler does while DEBUG is set.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.addFilter(_is_new)
    return handler


def _is_new(record: logging.LogRecord) -> bool:
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None:
        if any(_shows(handler, record) for handler in logger.handlers):
            return False
        logger = logger.parent
    return True


def _shows(handler: logging.Handler, record: logging.LogRecord) -> bool:
    if not isinstance(handler, logging.StreamHandler) or handler.stream not in _console():
        return False
    return record.levelno >= handler.level and bool(handler.filter(record))


def _console() -> tuple[object, ...]:
    return sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
