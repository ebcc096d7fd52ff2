"""Errors for parts of Celery that this package lacks. They say what to use instead."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

GUIDE: Final = "see docs/coming_from_celery.md"


def missing(module: str, name: str, instead: Mapping[str, str]) -> NoReturn:
    """Raise an error for a name that a module lacks: ImportError with advice if Celery has the name, and otherwise
    AttributeError."""
    if name in instead:
        raise ImportError(f"{name} of Celery is missing in {module}: {instead[name]}; {GUIDE}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def missing_attribute(owner: object, name: str, instead: Mapping[str, str]) -> NoReturn:
    """Raise AttributeError for a missing attribute, with advice if Celery's object has the attribute."""
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
    """Return whether the object is a class: Celery's class-based tasks have no counterpart here."""
    return inspect.isclass(function)
