"""The log of a worker on its console shows each record once."""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from worker_sdk.transport.console_log import console_handler

SiteHandler = logging.StreamHandler[io.StringIO]


@contextmanager
def site() -> Iterator[tuple[SiteHandler, io.StringIO]]:
    """Yield the handler of a logger that writes to the console itself, as that of Django does with DEBUG, and the
    console."""
    root, named, console = logging.getLogger(), logging.getLogger("site"), io.StringIO()
    # Not by a fixture: pytest sets its own stream between a fixture and the test.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", console)
        own, shown = logging.StreamHandler(console), console_handler()
        own.setFormatter(logging.Formatter("site: %(message)s"))
        shown.setFormatter(None)
        named.addHandler(own)
        named.setLevel(logging.INFO)
        root.addHandler(shown)
        yield own, console
        root.removeHandler(shown)
        named.removeHandler(own)
        named.setLevel(logging.NOTSET)


def test_a_record_that_another_handler_shows_is_shown_once() -> None:
    with site() as (_, console):
        logging.getLogger("site.tasks").info("began")
        logging.getLogger("elsewhere").warning("other")
        assert console.getvalue() == "site: began\nother\n"


def test_a_record_that_the_other_handler_leaves_out_is_shown() -> None:
    with site() as (own, console):
        own.setLevel(logging.ERROR)
        logging.getLogger("site.tasks").info("began")
        own.setLevel(logging.NOTSET)
        own.addFilter(lambda record: False)
        logging.getLogger("site.tasks").error("failed")
        assert console.getvalue() == "began\nfailed\n"


def test_a_handler_that_writes_elsewhere_is_none_of_the_console() -> None:
    with site() as (own, console):
        elsewhere = io.StringIO()
        own.setStream(elsewhere)
        logging.getLogger("site.tasks").info("began")
        assert (elsewhere.getvalue(), console.getvalue()) == ("site: began\n", "began\n")
