"""`import worker_sdk` loads little: each name is imported on first use."""

import subprocess
import sys

import pytest

import worker_sdk

# Each takes milliseconds to import.
OF_CLIENTS = {"asyncio", "http.client", "httptools", "importlib.metadata", "msgpack", "ssl"}
OF_SERVING = {"logging.config", "subprocess", "uvicorn", "uvloop"}
OF_WORKERS = {"inspect", "logging", "secrets", "worker_sdk.worker.worker"}


def loaded_by(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.req("S10")
def test_the_package_alone_brings_neither_clients_nor_workers() -> None:
    loaded = loaded_by("import worker_sdk; worker_sdk.Retry, worker_sdk.WorkerSdkError")
    assert loaded & (OF_CLIENTS | OF_SERVING | OF_WORKERS) == set()


@pytest.mark.req("S10")
def test_a_module_of_handlers_brings_neither_clients_nor_an_event_loop() -> None:
    program = """
from worker_sdk import CancelSignal, Context, Defer, Discard, Retry, Worker, discard_on, retry_on

worker = Worker(master="http://127.0.0.1:1")

@worker.handler("double", retry_on=retry_on(OSError))
async def double(argument: int, ctx: Context) -> int:
    return 2 * argument
"""
    loaded = loaded_by(program)
    assert "worker_sdk.worker.worker" in loaded
    assert loaded & (OF_CLIENTS | OF_SERVING) == set()


def test_a_program_that_pushes_brings_no_worker() -> None:
    loaded = loaded_by("from worker_sdk import Pusher, SyncPusher")
    assert "worker_sdk.pusher.client" in loaded
    assert loaded & (OF_SERVING - {"subprocess"} | {"worker_sdk.worker.worker"}) == set()  # asyncio loads it


@pytest.mark.parametrize("name", worker_sdk.__all__)
def test_each_name_is_there_and_listed(name: str) -> None:
    assert getattr(getattr(worker_sdk, name), "__name__", name) == name
    assert name in dir(worker_sdk)


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'worker_sdk' has no attribute 'Wroker'"):
        worker_sdk.Wroker  # noqa: B018
