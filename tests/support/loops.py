"""Tests for both event loops: that of the standard library and that of `jqmaster serve`."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

MakeLoop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize(
    "make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


def run_in(make_loop: MakeLoop, main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main)
