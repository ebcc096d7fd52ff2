"""The types of job options. They are checked when the option is given, not only when the job is pushed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple


class _Kind(NamedTuple):
    """The values that an option takes.

    * `plain`: types that are sent unchanged.
    * `other`: a type with values that are converted.
    * `has_form`: objects that define their own encoded form are accepted and converted, too.
    """

    plain: frozenset[type]
    other: str
    expected: str
    has_form: bool = False


_NUMBER: Final = _Kind(frozenset({int, float}), "", "a number")
_TEXT: Final = _Kind(frozenset({str}), "", "a text")
_WHOLE: Final = _Kind(frozenset({int}), "", "a whole number")
_YES_OR_NO: Final = _Kind(frozenset({bool}), "", "True or False")
_SECONDS: Final = _Kind(frozenset({int, float}), "timedelta", "seconds or a timedelta")
_INSTANT: Final = _Kind(frozenset({str}), "datetime", "a datetime with a time zone, or its text in ISO 8601")
_TEXTS: Final = _Kind(frozenset(), "Sequence", "a list of texts")
_MAP: Final = _Kind(frozenset(), "Mapping", "a map")

# The accepted types of each option, by its name in `JobOptions`. `after` is missing: its jobs are checked where they
# are converted.
KINDS: Final[Mapping[str, _Kind]] = {
    "priority": _WHOLE,
    "max_retry": _WHOLE,
    "keep_result": _YES_OR_NO,
    "timeout": _SECONDS,
    "delay": _SECONDS,
    "run_at": _INSTANT,
    "expires": _SECONDS._replace(expected="seconds or a timedelta, or an instant as expires_at"),
    "expires_at": _INSTANT,
    "id": _TEXT._replace(expected="a UUID as text, such as str(value)"),
    "key": _TEXT,
    "key_ttl": _SECONDS,
    "tags": _TEXTS,
    "headers": _MAP._replace(expected="a map of texts"),
    "retry": _MAP._replace(expected='a map, such as {"base_s": 1, "factor": 2}'),
    "rerun_lost": _YES_OR_NO,
    "unique": _MAP._replace(expected="a Unique", has_form=True),
    "debounce": _MAP._replace(expected="a Debounce", has_form=True),
    "batch": _TEXT._replace(expected="a Batch, or its ID as text", has_form=True),
    "notify_url": _TEXT,
    "notify": _MAP._replace(expected='a map, such as {"url": "https://…"}'),
    "requires": _MAP._replace(expected='a map of texts, such as {"gpu": "1"}'),
}
# The kinds of options of workers, pushers and `configure`, by their annotation.
BY_ANNOTATION: Final[Mapping[Any, _Kind]] = {int: _WHOLE, float: _NUMBER, bool: _YES_OR_NO}
# The types of each option that are sent unchanged. Check these types first: checks for other types would take most of
# the time of making a job.
PLAIN: Final = {option: kind.plain for option, kind in KINDS.items()}
_NO_LISTS: Final = (str, bytes, bytearray, memoryview)
_MAX_SHOWN: Final = 60


def check_option(option: str, value: Any) -> None:
    """Raise TypeError if an option of a job cannot have this value. None leaves the choice to the master.

    * `option`: name of the option.
    * `value`: value of the option.
    """
    if value is None or type(value) in PLAIN.get(option, ()) or (kind := KINDS.get(option)) is None:
        return
    check_kind(option, value, kind)


def check_kind(option: str, value: Any, kind: _Kind) -> None:
    """Raise TypeError if the value of an option is not of this kind. None must be excluded before."""
    # Exclude a bool, which Python counts as an int, and a text, which it counts as a sequence.
    is_other = isinstance(value, bool) or (kind is _TEXTS and isinstance(value, _NO_LISTS))
    if not is_other and isinstance(value, (*kind.plain, *_types(kind.other))):
        return
    if kind.has_form and hasattr(value, "to_wire"):
        return
    raise TypeError(f"{option} is {shown(value)}: give {kind.expected}")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise TypeError for the first of these options that has a value of a wrong type.

    * `options`: values by name, as in `JobOptions`.
    """
    for option, value in options.items():
        check_option(option, value)


def _types(name: str) -> tuple[type, ...]:
    # Import datetime only here, so that modules of tasks do not load it just for their options.
    import datetime

    types: dict[str, type] = {
        "timedelta": datetime.timedelta, "datetime": datetime.datetime, "Mapping": Mapping, "Sequence": Sequence,
    }  # fmt: skip
    return (types[name],) if name else ()


def shown(value: Any) -> str:
    # Show short texts and numbers only: long texts, and the items of lists and maps, may be secret.
    if isinstance(value, str | int | float | None) and len(shown := repr(value)) <= _MAX_SHOWN:
        return shown
    return f"a {type(value).__name__}"
