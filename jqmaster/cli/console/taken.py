"""Files that `jqmaster take` writes for `jqmaster done`. There is one file for each job that this user has taken
on this machine."""

import contextlib
import json
import os
import stat
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from jqmaster.cli.console import exits


@dataclass(frozen=True, slots=True)
class TakenJob:
    """A job that was taken.
    * `token`: the right to settle the attempt.
    * `worker_id`: the worker that took the job.
    """

    job_id: str
    token: str
    worker_id: str

    @property
    def claim(self) -> dict[str, str]:
        """Return the claim in the form of the API."""
        return {"job_id": self.job_id, "token": self.token}

    def save(self) -> None:
        """Write the file, readable only by this user. End the command if it cannot be written."""
        try:
            directory = _directory()
            directory.mkdir(mode=0o700, exist_ok=True)
            _check_owner(directory)
            with open(directory / f"{self.job_id}.json", "w", encoding="utf-8", opener=_private) as file:
                json.dump(asdict(self), file)
        except OSError as error:
            exits.fail(exits.REFUSED, f"the job cannot be recorded for `jqmaster done`: {error}")

    @classmethod
    def load(cls, job_id: str) -> Self:
        """Return a job that this user has taken on this machine. End the command if there is no such job."""
        directory = _directory()
        try:
            _check_owner(directory)
            return cls(**json.loads(_file(job_id).read_text("utf-8")))
        except FileNotFoundError:
            exits.fail(exits.NOT_FOUND, f"no job {job_id} is held here: take it first, as the same user")
        except (OSError, ValueError, TypeError) as error:
            exits.fail(exits.REFUSED, f"{directory}: {error}")

    def forget(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            _file(self.job_id).unlink()


def _directory() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"jqmaster-{os.getuid()}"


def _file(job_id: str) -> Path:
    # Use only the part of the text after the last slash. Valid IDs have no slash. So typed text cannot name a
    # file in another directory.
    return _directory() / f"{Path(job_id).name}.json"


def _check_owner(directory: Path) -> None:
    """Raise OSError if another user may have created the directory."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{directory} must be a directory of this user, closed to others")


def _private(path: Any, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
