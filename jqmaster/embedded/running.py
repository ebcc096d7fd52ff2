"""Find, end and examine the server of a data directory, without starting a server."""

import os
import signal
from pathlib import Path

from jqmaster.embedded.binary import wheel_binary
from jqmaster.embedded.diagnosis import EndDiagnosis, advice, error_of, last_ending
from jqmaster.embedded.directory import DataDirectory
from jqmaster.embedded.files import AppendOnlyFiles


def url_of_running(data_dir: Path) -> str | None:
    """Return the address of the server that a master runs on the directory, or None if no server runs. Changes
    nothing."""
    directory = DataDirectory(data_dir)
    return directory.url() if (directory.path / "password").exists() and directory.socket().exists() else None


def end_running(data_dir: Path) -> int | None:
    """Tell the server of the directory to shut down, and do not wait for its end. Return its process ID, or None
    if no server runs."""
    directory = DataDirectory(data_dir)
    try:
        pid = directory.pid_in_file()
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError):
        return None
    try:
        # Check this after opening the pidfd: from then on, the process ID cannot be given to another process.
        if not directory.holds_server_lock(pid):
            return None
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return pid


def examine(data_dir: Path) -> None:
    """Raise the error that a start on the directory would raise, if the error can be determined without a start.
    Changes nothing."""
    directory = DataDirectory(data_dir)
    if not (directory.path / "lock").exists():
        return
    if fault := AppendOnlyFiles(directory.path).damage(expects_data=bool(directory.marks())):
        ending: EndDiagnosis | None = EndDiagnosis("damaged", fault)
    else:
        ending = last_ending(directory.log)
    # A crash alone does not prevent the next start, which starts a new server.
    if ending and ending.cause != "crashed":
        raise error_of(ending, advice(ending, directory.path, wheel_binary()))
