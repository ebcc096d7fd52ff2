"""Handlers imported by other processes, and a worker to run as a process (`python -m tests.sdk.handlers URL`)."""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from worker_sdk import Context, Defer, PartNotKept, Worker

worker = Worker(
    os.environ.get("FAKE_MASTER", "http://127.0.0.1:1"),
    token="t0ken",
    max_jobs=4,
    grace_s=float(os.environ.get("GRACE_S", "0.3")),
)


@worker.handler("isolated.echo", isolated=True)
def isolated_echo(argument: Any, ctx: Context) -> Any:
    return [argument, os.getpid(), ctx.attempt, ctx.name, ctx.remaining() > 0]


@worker.handler("isolated.used", isolated=True)
def isolated_used(argument: Any, ctx: Context) -> str:
    ctx.used(tokens=1)
    ctx.used(tokens=1812, images=2)
    ctx.observed("model", "acme", remaining=7, resets_s=60)
    if argument == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    return "used"


@worker.handler("isolated.async", isolated=True)
async def isolated_async(argument: Any) -> str:
    await asyncio.sleep(0)
    return "async"


@worker.handler("isolated.async_fail", isolated=True)
async def isolated_async_fail(argument: Any) -> None:
    await asyncio.sleep(0)
    raise ValueError("bad")


@worker.handler("isolated.inputs", isolated=True)
def isolated_inputs(argument: Any, ctx: Context) -> list[Any]:
    return [ctx.inputs[0].result, ctx.inputs[1].state, len(ctx.inputs)]


@worker.handler("isolated.print", isolated=True)
def isolated_print(argument: Any) -> str:
    print("to stdout")
    return "printed"


@worker.handler("isolated.fail", isolated=True, discard_on=LookupError)
def isolated_fail(argument: str) -> None:
    raise {"lookup": LookupError("gone"), "value": ValueError("bad"), "defer": Defer(3)}[argument]


@worker.handler("isolated.exit", isolated=True)
def isolated_exit(argument: int) -> None:
    os._exit(argument)


@worker.handler("isolated.crash", isolated=True)
def isolated_crash(argument: int) -> None:
    os.kill(os.getpid(), argument)


@worker.handler("isolated.odd", isolated=True)
def isolated_odd(argument: Any) -> object:
    return object()


@worker.handler("isolated.enqueue", isolated=True)
def isolated_enqueue(argument: Any, ctx: Context) -> str:
    return ctx.enqueue("child", argument)


@worker.handler("isolated.fork", isolated=True)
def isolated_fork(argument: Any) -> str:
    """Fork. The parent waits for its copy, which returns first, to end."""
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        return f"the copy ended with {os.waitstatus_to_exitcode(status)}"
    return "the copy"


@worker.handler("isolated.hang", isolated=True)
def isolated_hang(argument: str) -> None:
    """Write the process IDs of this process and of those that it started, then never end."""
    write_pids(Path(argument))
    while True:
        time.sleep(1)


@worker.handler("isolated.leave", isolated=True)
def isolated_leave(argument: str) -> str:
    """Do the same, and return while they run."""
    write_pids(Path(argument))
    return "left"


def write_pids(path: Path) -> None:
    """Start a child, one with a session of its own, and one whose parent has ended; then write their process IDs."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(sleep)
    leader = subprocess.Popen(sleep, start_new_session=True)
    told, tell = os.pipe()
    if (middle := os.fork()) == 0:
        os.setsid()
        orphan = subprocess.Popen(sleep, start_new_session=True)
        os.write(tell, str(orphan.pid).encode())
        os._exit(0)
    os.waitpid(middle, 0)
    path.with_suffix(".tmp").write_text(
        f"{os.getpid()} {child.pid} {leader.pid} {os.read(told, 20).decode()}"
    )
    path.with_suffix(".tmp").rename(path)


def idle() -> None:
    time.sleep(600)


gate = asyncio.Event()


@worker.handler("fork.beside")
async def fork_beside(argument: str) -> None:
    """Record each process that passes the gate."""
    await gate.wait()
    with Path(argument).open("a") as file:
        file.write(f"{os.getpid()}\n")


@worker.handler("fork.waits")
async def fork_waits(argument: Any) -> int:
    """Fork and open the gate in both processes. The parent returns how the child ended."""
    pid = os.fork()
    gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@worker.handler("fork.terminate")
def fork_terminate(argument: Any) -> int | None:
    """Return how a terminated forked child ended."""
    child = multiprocessing.get_context("fork").Process(target=idle, daemon=True)
    child.start()
    child.terminate()
    child.join(10)
    return child.exitcode


@worker.handler("fork.orphan")
def fork_orphan(argument: str) -> None:
    """Leave a forked child behind, and write its process ID to a file."""
    pid = os.fork()
    if pid == 0:
        idle()
        os._exit(0)
    Path(argument).write_text(str(pid))


@worker.handler("fork.twice")
def fork_twice(argument: int) -> int:
    """Leave orphans behind that end at once. Return the exit code of a child."""
    for _ in range(argument):
        middle = os.fork()
        if middle == 0:
            if os.fork() == 0:
                time.sleep(0.05)
            os._exit(0)
        os.waitpid(middle, 0)
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    time.sleep(1)
    return child.wait()


@worker.handler("wait")
async def wait(argument: float) -> str:
    await asyncio.sleep(argument)
    return "waited"


@worker.handler("deaf")
def deaf(argument: float) -> str:
    time.sleep(argument)
    return "heard nothing"


@worker.handler("tick")
def tick(argument: str) -> None:
    """Write to a file without end."""
    with Path(argument).open("a", buffering=1) as file:
        while True:
            file.write(".\n")


@worker.handler("deaf.command")
def deaf_command(argument: str) -> None:
    """Wait for a process that ignores SIGTERM and writes its process ID."""
    program = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    )
    subprocess.run([sys.executable, "-c", program, argument], check=False)


@worker.handler("interrupt")
async def interrupt(argument: Any) -> None:
    """Let the main thread be interrupted outside of any handler."""

    def raise_it() -> None:
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(raise_it)


@worker.handler("start.thread")
def start_thread(argument: float) -> None:
    threading.Thread(target=time.sleep, args=(argument,), daemon=False).start()


@worker.handler("stubborn")
async def stubborn(argument: float) -> None:
    end_s = time.monotonic() + argument
    while time.monotonic() < end_s:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(argument)


if __name__ == "__main__":
    worker.master = sys.argv[1]
    worker.run()


@worker.handler("isolated.iterate", isolated=True)
def isolated_iterate(argument: int, ctx: Context) -> Any:
    done = []
    for item in ctx.iterate(range(5), every_s=0.0):
        if item == argument:
            raise ValueError(f"at {item}")
        done.append(item)
    return [done, ctx.checkpoint]


@worker.handler("isolated.steps", isolated=True)
def isolated_steps(argument: list[str], ctx: Context) -> list[str]:
    log, kill_at = argument

    def at(point: str) -> None:
        if point == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def effect(name: str) -> str:
        with Path(log).open("a") as file:
            file.write(name)
        at(f"in {name}")
        return name.upper()

    done = []
    for name in ("a", "b"):
        done.append(ctx.step(name, effect, name))
        at(f"behind {name}")
    return done


@worker.handler("isolated.emit", isolated=True)
def isolated_emit(argument: int, ctx: Context) -> Any:
    for number in range(argument):
        ctx.emit({"n": number})
    try:
        ctx.emit("one too many")
    except PartNotKept as exc:
        return str(exc)


@worker.handler("isolated.write", isolated=True)
def isolated_write(argument: Any, ctx: Context) -> None:
    ctx.logger.info("by the context")
    logging.getLogger("handlers").error("by a logger")
    print("printed", flush=True)
    print("to stderr", file=sys.stderr)
    subprocess.run(["/bin/echo", "from a child"], check=True)
    print("without an end", end="")
