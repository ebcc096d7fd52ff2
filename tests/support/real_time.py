"""Marks for tests that wait for real time: why each of them may be run once more when it fails.

Tests share two cores with each other. A test that needs an answer within a second or two fails now and then for the
sole reason that the machine kept it waiting. Such a test carries one of these marks; `reruns.py` lets it run once
more, and the summary lists it under RERUN. A test that stands there again and again has a fault. All other tests fail
at once, unless the machine stood still meanwhile.
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
