"""Texts of objects for logs, debuggers and error reports, without secrets and the content of jobs."""

from collections.abc import Iterable
from typing import Any, Final

_MAX_NAMES: Final = 5


def without_content(shown: Any, *hidden: str) -> str:
    """Return the `repr` of a dataclass without some of its fields.

    * `shown`: the dataclass.
    * `hidden`: the fields that hold a secret or the content of a job.
    """
    fields = [f"{name}={getattr(shown, name)!r}" for name in shown.__dataclass_fields__ if name not in hidden]
    return f"{type(shown).__name__}({', '.join(fields)})"


def some_of(names: Iterable[str], none: str) -> str:
    """Return the first names for a `repr`, and the number of the other names.

    * `names`: all names.
    * `none`: the text if there are no names.
    """
    every = list(names)
    more = f" and {len(every) - _MAX_NAMES} more" if len(every) > _MAX_NAMES else ""
    return f"{', '.join(every[:_MAX_NAMES])}{more}" if every else none
