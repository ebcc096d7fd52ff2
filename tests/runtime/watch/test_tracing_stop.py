"""A collector of traces that hangs, at the end of a master."""

import socket
import time

import pytest

from jqmaster import tracing
from jqmaster.config import Settings


async def test_a_collector_that_hangs_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "STOP_WITHIN_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        endpoint = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        traces = tracing.Tracing.from_settings(Settings(traces_endpoint=endpoint), "m", "1")
        assert traces is not None
        header = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
        traces.end(traces.begin("create", [("id", "name", header)]), "ok")
        began_s = time.monotonic()
        await traces.stop()
        assert time.monotonic() - began_s < 4
    assert "does not take the last spans" in caplog.text
