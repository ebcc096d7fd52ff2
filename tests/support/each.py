"""Small cases that run as one test. Its failure names each case that failed.

Each test of a parametrised one costs a few milliseconds in each process of a run, and its fixtures again: a tenth of a
second for a master. Use this where no case leaves anything behind that another one could notice: for reads of files,
for calculations, and for refused requests.
"""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

# A test must fail for these, although they are not of the type Exception: pytest.raises, pytest.fail.
FAILURES: Final = (Exception, pytest.fail.Exception)
SHOWN: Final = 10
LABEL_CHARACTERS: Final = 100


def for_each(
    names: str | Sequence[str],
    cases: Iterable[Any],
    ids: Callable[[Any], object] | Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Call a test function with each of `cases`. Like `pytest.mark.parametrize`, but in one test."""
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    sets = [ParameterSet.extract_from(case, force_tuple=len(named) == 1) for case in cases]
    assert sets, "no cases"
    assert all(len(one.values) == len(named) and not one.marks for one in sets)

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def each(*args: Any, **fixtures: Any) -> None:
                outcome = _Outcome(len(sets))
                for label, case in _labelled(sets, ids):
                    with outcome.of(label):
                        await test(*args, **fixtures, **dict(zip(named, case, strict=True)))
                outcome.judge()

        else:

            @functools.wraps(test)
            def each(*args: Any, **fixtures: Any) -> None:
                outcome = _Outcome(len(sets))
                for label, case in _labelled(sets, ids):
                    with outcome.of(label):
                        test(*args, **fixtures, **dict(zip(named, case, strict=True)))
                outcome.judge()

        signature = inspect.signature(test)
        fixtures = [one for name, one in signature.parameters.items() if name not in named]
        assert len(fixtures) == len(signature.parameters) - len(named), (
            f"{test.__name__} lacks one of {named}"
        )
        vars(each)["__signature__"] = signature.replace(parameters=fixtures)
        return each

    return decorate


class _Outcome:
    """Collects failed cases."""

    def __init__(self, cases: int) -> None:
        self._cases = cases
        self._failed: list[tuple[str, BaseException]] = []

    def of(self, label: str) -> "_Case":
        return _Case(label, self._failed)

    def judge(self) -> None:
        """Raise AssertionError if a case failed."""
        if self._failed:
            texts = [
                f"{label}:\n{''.join(traceback.format_exception_only(error)).rstrip()}"
                for label, error in self._failed[:SHOWN]
            ]
            if len(self._failed) > SHOWN:
                texts.append(f"and {len(self._failed) - SHOWN} more")
            text = f"{len(self._failed)} of {self._cases} cases failed\n" + "\n".join(texts)
            # Its traceback shows where the first one failed.
            raise AssertionError(text) from self._failed[0][1]


class _Case:
    def __init__(self, label: str, failed: list[tuple[str, BaseException]]) -> None:
        self._label = label
        self._failed = failed

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, FAILURES):
            self._failed.append((self._label, error))
            return True
        return False


def _labelled(
    sets: Sequence[ParameterSet], ids: Callable[[Any], object] | Sequence[str] | None
) -> Iterator[tuple[str, Sequence[Any]]]:
    for number, one in enumerate(sets):
        if isinstance(one.id, str):
            label = one.id
        elif callable(ids):
            label = "-".join(str(part) for value in one.values if (part := ids(value)) is not None)
        else:
            label = ids[number] if ids is not None else ", ".join(map(repr, one.values))
        yield label[:LABEL_CHARACTERS], one.values
