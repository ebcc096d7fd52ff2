"""Erases values and logs of finished jobs. The jobs themselves stay, with their times and final states."""

from collections.abc import Callable, Sequence
from typing import Final

from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import FINISHED
from jqmaster.domain.matching.paths import Path
from jqmaster.domain.personal_data import erasure as rules
from jqmaster.errors import ConflictError, FieldError, NotFoundError, invalid
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.operator_actions import StateConflict
from jqmaster.store.operations.history import HistoryStore
from jqmaster.store.personal_data.erasure import Erasure, ErasureStore, StoredContent

_READ_AGAIN: Final = 3
# The position of the uniqueness key in the extras of a job: see `store/codec.py`.
_OF_UNIQUE_KEY: Final = 2


class PersonalDataErasure:
    """Erases values and logs of jobs. Methods raise what the stores raise."""

    def __init__(self, store: ErasureStore, history: HistoryStore) -> None:
        self._store = store
        self._history = history

    async def erase_values(self, job_id: str, paths: Sequence[Path], *, who: str) -> None:
        """Erase the values at these paths: either all of them or none. Raise NotFoundError, ConflictError if the job is
        not over, and InvalidError, which names each path without a value."""
        entry = encode_entry(
            who=who, action="job.erase", target=job_id, before=None, after={"fields": list(map(str, paths))}
        )
        for _ in range(_READ_AGAIN):
            content = await self._store.read(job_id) if is_id(job_id) else None
            if content is None:
                raise _unknown(job_id)
            if content.job.state not in FINISHED:
                raise _not_over(StateConflict(content.job.state), "its worker needs the values")
            try:
                if await self._store.erase(content, _erasure(content, paths), entry):
                    break
            except KeyError:
                raise _unknown(job_id) from None
            except StateConflict as exc:
                raise _not_over(exc, "its worker needs the values") from None
        else:
            raise ConflictError("the job changed while its values were erased; try again")
        if any(path.root == "errors" for path in paths):
            # Also erase the text of the failure group, which may be a copy of this job's error.
            await self._history.forget_failures([job_id])

    async def erase_log(self, job_id: str, *, who: str) -> bool:
        """Erase the log of a job. Return False if there is no such job. Raise ConflictError if the job is not over, or
        has ended so recently that lines may still arrive."""
        entry = encode_entry(who=who, action="job.erase_log", target=job_id, before=None, after=None)
        if not is_id(job_id):
            return False
        try:
            open_ms = await self._store.erase_log(job_id, entry)
        except KeyError:
            return False
        except StateConflict as exc:
            raise _not_over(exc, "its worker still sends lines") from None
        if open_ms:
            raise ConflictError(
                f"the worker may send lines of this job for another {-(-open_ms // 1000)} s; erase the log then",
                code="log_open",
            )
        return True


def _erasure(content: StoredContent, paths: Sequence[Path]) -> Erasure:
    """Return the new values of a job, without the values at these paths. Raise InvalidError, which names each path
    without a value."""
    by_root: dict[str, list[Path]] = {}
    faults = []
    for number, path in enumerate(paths):
        if _is_there(content, path):
            by_root.setdefault(path.root, []).append(path)
        else:
            faults.append(FieldError(("fields", number), f"the job has no value at {path}"))
    if faults:
        raise invalid(faults)
    found = Erasure()
    extras = dict(content.extras)
    job = content.job
    if "argument" in by_root:
        found.argument = rules.without_values(job.argument, by_root["argument"])
    if "headers" in by_root:
        gone = {path.parts[0] for path in by_root["headers"]}
        headers = {key: rules.ERASED if key in gone else value for key, value in job.headers.items()}
        extras["headers"] = headers
    if "tags" in by_root:
        extras.pop("tags", None)
    if "unique_key" in by_root:
        unique = list(extras["unique"])
        unique[_OF_UNIQUE_KEY] = rules.ERASED
        extras["unique"] = unique
    result = content.result
    if "result" in by_root and result is not None:
        result = rules.result_without_values(result, by_root["result"])
    if "errors" in by_root:
        found.errors = [rules.attempt_without_error(attempt) for _, attempt in content.history]
        result = None if result is None else rules.result_without_error(result)
    found.result = result
    found.drops = {root for root in ("progress", "parts", "challenges") if root in by_root}
    extras["erased"] = list(dict.fromkeys([*job.erased, *map(str, paths)]))
    found.extras = extras
    return found


def _is_there(content: StoredContent, path: Path) -> bool:
    job = content.job
    match path.root:
        case "argument":
            return _holds(lambda: rules.without_values(job.argument, [path]))
        case "headers":
            return path.parts[0] in job.headers
        case "result":
            result = content.result
            return result is not None and _holds(lambda: rules.result_without_values(result, [path]))
        case "tags":
            return bool(job.tags)
        case "unique_key":
            return job.unique is not None and job.unique.key is not None
    # Report the other parts as present even if they are empty, because it does no harm to erase an empty part.
    return True


def _holds(erase: Callable[[], bytes]) -> bool:
    try:
        erase()
    except (KeyError, ValueError):
        return False
    return True


def _unknown(job_id: str) -> NotFoundError:
    return NotFoundError(f"no job {job_id[:64]}", code="unknown_job")


def _not_over(conflict: StateConflict, reason: str) -> ConflictError:
    return ConflictError(
        f"the job is {conflict.state}, and {reason}: cancel it, or wait until it is over",
        code=f"job_{conflict.state}",
    )
