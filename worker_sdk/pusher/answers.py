"""Read a master's answers to calls that enqueue. Take the IDs, and check that each answer is about the jobs of its
call."""

from collections.abc import Sequence

from worker_sdk.errors import AnswerMismatchError, Duplicate, RefusedError, WorkerSdkError, refused
from worker_sdk.masters.masters import MasterAnswer
from worker_sdk.pusher.chunks import Chunk
from worker_sdk.pusher.unique import EnqueuedId


def id_of(answer: MasterAnswer) -> str:
    """Return the ID of the enqueued job, which may differ from the ID that was sent."""
    body = answer.body
    return EnqueuedId.of(
        str(body["id"]), is_duplicate=body.get("duplicate") is True, is_replaced=body.get("replaced") is True
    )


def ids_of(chunk: Chunk, answer: MasterAnswer) -> list[str]:
    if not chunk.keyed:
        return chunk.ids
    ids = [str(job_id) for job_id in answer.body["ids"]]
    for index in answer.body.get("duplicates") or ():
        ids[index] = EnqueuedId.of(ids[index], is_duplicate=True, is_replaced=False)
    for index in answer.body.get("replaced") or ():
        ids[index] = EnqueuedId.of(ids[index], is_duplicate=False, is_replaced=True)
    return ids


def check_jobs(answer: MasterAnswer, enqueued: Sequence[str], of: str, keyed: frozenset[int]) -> None:
    """Raise AnswerMismatchError if the answer names jobs that are not in the call."""
    asked = [of] if of else enqueued
    if (named := answer.job_id) is not None:
        answered = [named]
    elif answer.is_ok and "id" in answer.body:
        answered = [str(answer.body["id"])]
    elif answer.is_ok and enqueued:
        ids = answer.body.get("ids")
        answered = [str(job_id) for job_id in ids] if isinstance(ids, list) else []
    else:
        return  # the answer is an error, or a result from a master that does not name the job
    if keyed and len(answered) == len(asked):
        asked = [answered[n] if n in keyed else job_id for n, job_id in enumerate(asked)]
    if answered != asked:
        raise AnswerMismatchError(asked, answered, unknown_ids=enqueued)


def refused_after(accepted_ids: list[str], exc: WorkerSdkError) -> WorkerSdkError:
    """Convert the failure of a chunk to a failure of the whole call. Its indices count from the start of the call."""
    if isinstance(exc, RefusedError):
        errors = []
        for error in exc.errors:
            loc = list(error.get("loc", ()))
            if len(loc) > 1 and loc[0] == "jobs" and isinstance(loc[1], int):
                loc[1] += len(accepted_ids)
            errors.append({**error, "loc": loc})
        problem = {"code": exc.code, "detail": exc.detail, "errors": errors}
        if isinstance(exc, Duplicate):
            problem["job_id"] = exc.job_id
        exc = refused(exc.status, problem, unknown_ids=exc.unknown_ids)
    exc.accepted_ids = accepted_ids
    return exc
