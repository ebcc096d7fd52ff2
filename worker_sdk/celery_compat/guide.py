"""How this package says that something of Celery is missing, and what to use instead."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

GUIDE: Final = "see docs/coming_from_celery.md"


def missing(module: str, name: str, instead: Mapping[str, str]) -> NoReturn:
    """Raise what a module raises for a name that it does not have: ImportError, which says what to use, for one of
    Celery."""
    if name in instead:
        raise ImportError(f"{name} of Celery is missing in {module}: {instead[name]}; {GUIDE}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def missing_attribute(owner: object, name: str, instead: Mapping[str, str]) -> NoReturn:
    """Raise AttributeError for an attribute that an object of Celery would have, or would not have either."""
    if name in instead:
        raise AttributeError(f"{name} of Celery is missing here: {instead[name]}; {GUIDE}")
    raise AttributeError(f"{type(owner).__name__} has no attribute {name!r}")


def check_options(given: Iterable[str], known: Iterable[str], what: str, instead: Mapping[str, str]) -> None:
    """Raise TypeError for options that are not known."""
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return
    told = "".join(f"; instead of {name}, {instead[name]}" for name in unknown if name in instead)
    raise TypeError(f"{', '.join(unknown)}: not {what} in worker_sdk.celery_compat{told}; {GUIDE}")


def is_abstract(function: object) -> bool:
    """Return whether it is a class: Celery's tasks by class have no counterpart."""
    return inspect.isclass(function)
