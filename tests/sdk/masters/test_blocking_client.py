"""The thread-blocking client at the end of its process."""

import subprocess
import sys

import pytest

from tests.sdk.fake_master import FakeMaster

# Python clears remaining modules in reverse import order: what `codecs` holds is collected after the names of the
# client's module are gone.
_KEEPS_A_CONNECTION = """
import codecs
import sys
import worker_sdk.masters.blocking_client
from worker_sdk import SyncPusher

codecs.kept = SyncPusher(sys.argv[1], token=sys.argv[2])
codecs.kept.enqueue("n")
sys.left = (codecs, worker_sdk.masters.blocking_client)
"""


@pytest.mark.req("M1")
def test_a_process_that_ends_with_a_kept_connection_says_nothing(master: FakeMaster) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", _KEEPS_A_CONNECTION, master.url, master.token],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(master.jobs) == 1
