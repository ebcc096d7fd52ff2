"""A handler of signals may make a call in the midst of the first one of its process, whatever that one imports."""

import json
import subprocess
import sys

import pytest

from tests.sdk.fake_master import FakeMaster

# A signal arrives at each import of the first call in the midst of which a module is half made.
_PROGRAM = """
import asyncio
import json
import signal
import sys
import threading

from worker_sdk import {names}, Tasks, configure

url, token, call, is_async = sys.argv[1], sys.argv[2], sys.argv[3], bool(sys.argv[4])
configure(url=url, token=token)
tasks = Tasks()


@tasks.task("double")
def double(number: int) -> int:
    return 2 * number


made, faults = [], []
is_inside = False


def handle(*_):
    global is_inside
    if is_inside:
        return
    is_inside = True
    try:
        made.append(eval({inside!r}))
    except Exception as exc:
        faults.append(repr(exc))
    finally:
        is_inside = False


main = threading.main_thread().ident
is_first = True


def look(event, args):
    if event == "import" and is_first and any(map(is_half_made, list(sys.modules.values()))):
        signal.pthread_kill(main, signal.SIGUSR1)


def is_half_made(module):
    spec = getattr(module, "__spec__", None)
    return spec is not None and spec.name.startswith("worker_sdk.") and getattr(spec, "_initializing", False)


signal.signal(signal.SIGUSR1, handle)
sys.addaudithook(look)
found = eval(call)
if is_async:
    asyncio.run(found)
is_first = False
print(json.dumps([len(made), faults]))
"""


@pytest.mark.req("S8")
@pytest.mark.parametrize(
    ("name", "call", "inside"),
    [
        ("Tasks", "double.enqueue(1)", "double.enqueue(2)"),
        ("Tasks", "double.using(priority=1).many([{'number': 1}])", "double.enqueue(2)"),
        ("Tasks", "double.handle('018f0000-0000-7000-8000-000000000000')", "double.enqueue(2)"),
        ("Tasks", "double.aenqueue(1)", "double.enqueue(2)"),
        ("SyncPusher", "SyncPusher().enqueue('double', 1)", "SyncPusher().enqueue('double', 2)"),
        ("Pusher", "Pusher().enqueue('double', 1)", "double.enqueue(2)"),
    ],
    ids=["task", "many", "handle", "async task", "pusher of threads", "pusher of loops"],
)
def test_a_signal_handler_may_call_in_the_midst_of_the_first_call(
    master: FakeMaster, name: str, call: str, inside: str
) -> None:
    program = _PROGRAM.format(names=name, inside=inside)
    is_async = "1" if "aenqueue" in call or call.startswith("Pusher") else ""
    done = subprocess.run(
        [sys.executable, "-c", program, master.url, master.token, call, is_async],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made, faults = json.loads(done.stdout)
    assert faults == []
    assert made > 0
    assert len(master.jobs) >= made
