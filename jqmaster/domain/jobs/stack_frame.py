"""The place in an application's code at which an exception was raised, read from its stack trace."""

import re
from dataclasses import dataclass
from typing import Final

import msgpack

# Maximum number of characters of a trace to read. For Python, which prints the innermost frame last, the end of the
# trace is read. For JavaScript, the beginning is read.
MAX_READ: Final = 20_000
_MAX_PART: Final = 200
_FRAMES_READ: Final = 100

_PYTHON: Final = re.compile(
    r'^ {2}File "(?P<file>[^"\n]{1,500})", line \d+, in (?P<function>[^\n]{1,200})(?:\n {4}(?P<code>[^\n]{1,400}))?',
    re.M,
)
_PYTHON_BEGINS: Final = "Traceback (most recent call last):"
_JAVASCRIPT: Final = re.compile(
    r"^ {4}at (?:(?P<function>[^\n(]{1,200}) \()?(?:file://)?(?P<file>[^\n():]{1,500}):\d+:\d+\)?$", re.M
)
# Paths of code that applications use but did not write.
_FOREIGN: Final = ("site-packages/", "dist-packages/", "node_modules/", "<frozen ", "node:", "/worker_sdk/")
_STDLIB: Final = re.compile(r"/lib/python3\.\d+/(?!site-packages)")


@dataclass(frozen=True, slots=True)
class StackFrame:
    """The innermost frame of the application's own code.

    * `file`: the name of the file and its folder, such as `mail/send.py`.
    * `code`: the source line, empty if the trace has none.
    """

    type: str
    file: str
    function: str
    code: str

    @property
    def kind(self) -> str:
        """Return the text by which failures are grouped. It has no line number, which changes with each release."""
        return "\0".join((self.type, self.file, self.function, self.code))


def frame_of(error: bytes | None) -> StackFrame | None:
    """Return the frame of an encoded error `{type, message, traceback}`, or None if the error has no readable
    trace."""
    if error is None:
        return None
    try:
        fields = msgpack.unpackb(error, strict_map_key=False, unicode_errors="replace", timestamp=0)
    except Exception:  # an error that cannot be decoded has no known frame
        return None
    if not isinstance(fields, dict):
        return None
    kind, trace = fields.get("type"), fields.get("traceback")
    if not isinstance(kind, str) or not isinstance(trace, str):
        return None
    return _python(kind, trace[-MAX_READ:]) or _javascript(kind, trace[:MAX_READ])


def kind_of(error: bytes | None) -> str:
    """Return the `kind` of the frame of an encoded error; empty if the error has no frame."""
    frame = frame_of(error)
    return frame.kind if frame else ""


def _python(kind: str, trace: str) -> StackFrame | None:
    # If there are several traces, the last one belongs to the exception that reached the worker.
    frames = list(_PYTHON.finditer(trace[trace.rfind(_PYTHON_BEGINS) + 1 :]))[-_FRAMES_READ:]
    return _frame(kind, frames[::-1])


def _javascript(kind: str, trace: str) -> StackFrame | None:
    return _frame(
        kind, [match for match, _ in zip(_JAVASCRIPT.finditer(trace), range(_FRAMES_READ), strict=False)]
    )


def _frame(kind: str, frames: list[re.Match[str]]) -> StackFrame | None:
    """Return the innermost frame of the application's own code. If there is none, return the innermost frame of all
    code. `frames`: innermost first."""
    found = next((one for one in frames if not _is_foreign(one["file"])), frames[0] if frames else None)
    if found is None:
        return None
    parts = found["file"].replace("\\", "/").rsplit("/", 2)
    code = (found.groupdict().get("code") or "").strip()
    return StackFrame(
        kind[:_MAX_PART], "/".join(parts[-2:]), (found["function"] or "").strip(), code[:_MAX_PART]
    )


def _is_foreign(file: str) -> bool:
    return any(part in file for part in _FOREIGN) or bool(_STDLIB.search(file))
