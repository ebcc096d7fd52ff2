"""Marks for tests that wait for real time. Each mark says why its test may run once more after a failure.

Tests share two cores. A test that needs an answer within a second or two sometimes fails only because the machine kept
it waiting. Such a test carries one of these marks; `reruns.py` lets it run once more, and the summary lists it under
RERUN. A test that appears there repeatedly has a fault. All other tests fail at once, unless the machine stood still
during the test.
"""

from typing import Final

import pytest

MASTER: Final = pytest.mark.real_time("a whole master keeps leases, heartbeats and offers by the real clock")
WORKER: Final = pytest.mark.real_time("a worker keeps leases of a second or two by the real clock")
LOOPS: Final = pytest.mark.real_time(
    "loops of a master wait on real timers and sockets, and the test on them"
)
SOCKETS: Final = pytest.mark.real_time(
    "servers and clients keep deadlines of fractions of a second on real sockets"
)
PROCESSES: Final = pytest.mark.real_time(
    "processes start, are killed and answer within seconds beside other tests"
)
BROWSER: Final = pytest.mark.real_time(
    "a browser draws pages of a live master within seconds beside other tests"
)
