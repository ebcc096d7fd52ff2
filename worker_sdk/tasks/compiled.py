"""Functions that are generated for the parameters of one task, as `dataclasses` generates `__init__`. These functions
run in every call. Loops over the parameters would take most of the time that a task adds to its job."""

import datetime
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

Binding = Callable[..., dict[str, Any]]
Check = Callable[[Mapping[str, Any]], bool]

# Values of exactly these types are sent unchanged.
PLAIN: Final[frozenset[type]] = frozenset({str, int, float, bool, bytes, type(None), datetime.datetime})


def binding_of(
    positional: Collection[str], keyword_only: Collection[str], required: Collection[str]
) -> Binding:
    """Return a function with these parameters. It returns the given arguments of a call by name, and raises TypeError
    for a call that does not fit. A required parameter may follow an optional parameter."""
    names = {"absent": object()}
    absent = _unused("absent", {*positional, *keyword_only})
    given = _unused("given", {*positional, *keyword_only, absent})
    heads: list[str] = []
    checked: list[str] = []
    for name in positional:
        is_bare = name in required and not any("=" in head for head in heads)
        heads.append(name if is_bare else f"{name}={absent}")
        if name in required and not is_bare:
            checked += [f"if {name} is {absent}:", "    raise TypeError"]
    if keyword_only:
        heads += ["*", *(name if name in required else f"{name}={absent}" for name in keyword_only)]
    all_names = [*positional, *keyword_only]
    always = ", ".join(f"{name!r}: {name}" for name in all_names if name in required)
    lines = [f"{given} = {{{always}}}"]
    for name in all_names:
        if name not in required:
            lines += [f"if {name} is not {absent}:", f"    {given}[{name!r}] = {name}"]
    return _function(
        "bind", ", ".join(heads), [*checked, *lines, f"return {given}"], {absent: names["absent"]}
    )


def plain_check_of(annotations: Mapping[str, Any], required: Collection[str]) -> Check | None:
    """Return a function that quickly checks arguments by name. It returns True if all required arguments are given, no
    unknown argument is given, and each argument has exactly the type of its annotation. The arguments can then be sent
    unchanged. False does not mean that they are invalid.

    Return None if an annotation allows values of other types.
    """
    kinds = {name: _plain_kinds(annotation) for name, annotation in annotations.items()}
    if not all(kinds.values()):
        return None
    constants: dict[str, Any] = {"kind_of": type}
    checks = {}
    for number, (name, allowed) in enumerate(kinds.items()):
        one = len(allowed) == 1
        constants[f"kind_{number}"] = next(iter(allowed)) if one else allowed
        checks[name] = f"kind_of(given[{name!r}]) {'is' if one else 'in'} kind_{number}"
    always = [check for name, check in checks.items() if name in required]
    lines = [f"number = {len(always)}"]
    if always:
        lines += ["try:", f"    if not ({' and '.join(always)}):", "        return False"]
        lines += ["except KeyError:", "    return False"]
    for name, check in checks.items():
        if name not in required:
            lines += [
                f"if {name!r} in given:",
                f"    if not {check}:",
                "        return False",
                "    number += 1",
            ]
    return _function("is_plain", "given", [*lines, "return len(given) == number"], constants)


def _plain_kinds(annotation: Any) -> frozenset[type]:
    """Return the types that an annotation allows, if all these types are plain. Otherwise, return an empty set."""
    if annotation is Any or annotation is object:
        return PLAIN
    if annotation is None:
        return frozenset({type(None)})
    if isinstance(annotation, type) and annotation in PLAIN:
        return frozenset({annotation})
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [_plain_kinds(part) for part in typing.get_args(annotation)]
        if all(parts):
            return frozenset[type]().union(*parts)
    return frozenset()


def _unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _function(name: str, heads: str, lines: list[str], constants: dict[str, Any]) -> Callable[..., Any]:
    text = "\n    ".join([f"def {name}({heads}):", *lines])
    exec(text, constants)  # noqa: S102  the names of parameters are identifiers
    made: Callable[..., Any] = constants[name]
    return made
