"""A process between a worker and a command. It ends all processes that the command has started, even when the worker
dies.

An interpreter without site packages runs this file, because it has to start fast. Standard input has one line of JSON,
and then one byte per command: T to end the process, K to kill it. The end of the input means K. The outcome is written
to the descriptor `status_fd`.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    spec = json.loads(_line())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become_reaper()
    try:
        child = subprocess.Popen(  # noqa: S603 - an argv, and never a shell
            spec["argv"],
            stdin=subprocess.DEVNULL,
            env=spec["env"],
            cwd=spec["cwd"],
            start_new_session=True,
            preexec_fn=lambda: _limit(spec["limits"]),  # noqa: PLW1509 - there are no other threads
        )
    except (OSError, subprocess.SubprocessError) as exc:
        _tell(spec["status_fd"], {"error": f"{type(exc).__name__}: {exc}"})
        return
    let_go_of_outputs()
    supervise(child.pid)
    kill_family(child.pid)
    _tell(spec["status_fd"], {"code": child.wait()})


def become_reaper() -> None:
    """Make this process, and not init, the new parent of orphaned descendants."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def let_go_of_outputs() -> None:
    """Close the outputs in this process, so that only the child has them open."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def _line() -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            sys.exit(1)
        line += piece
    return bytes(line)


def _limit(limits: "dict[str, int]") -> None:
    import resource

    for name, value in limits.items():
        which = getattr(resource, name, None)
        if which is not None:
            # A CPU limit sends SIGXCPU first. The hard limit sends SIGKILL one second later.
            resource.setrlimit(which, (value, value + 1))


def supervise(leader: int) -> None:
    """Wait until this child has ended, and execute commands meanwhile. The child leads its own process group."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # Do not use `poll`: it would reap the leader, and a new group could then get the same number.
    while os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        if 0 in ready:
            if os.read(0, 1) != b"T":
                return
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGTERM)


def kill_family(leader: int) -> None:
    """Kill the group of the child, and the processes that have left it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
        # Wait for the end of the leader, which takes longer on a busy machine. Only then do the processes that the
        # leader forked become children of this process.
        os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
    while children := [pid for pid in _children() if pid != leader]:
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            # Reap this child, so that its own children become children of this process.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> "list[int]":
    """Return the process IDs of this process's children. The list is empty if the system does not list them."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError, ValueError), open(f"/proc/{entry}/stat", "rb") as stat:
                    # The program's name is in parentheses and may contain any character, so read from the last
                    # parenthesis.
                    if int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():
                        found.append(int(entry))
    return found


def _tell(status_fd: int, outcome: "dict[str, object]") -> None:
    with contextlib.suppress(OSError):
        os.write(status_fd, json.dumps(outcome).encode())


if __name__ == "__main__":
    main()
