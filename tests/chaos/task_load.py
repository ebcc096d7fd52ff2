"""Jobs with steps, jobs that are gathered, and sealed jobs. Each has only one life: nobody deletes or reruns them."""

import hashlib
import random
from collections.abc import Mapping
from typing import Any, Final

from worker_sdk import Seal, SealError
from worker_sdk.pusher.ids import new_job_id

STEPPED, GATHERED, SEALED = "stepped", "gathered", "sealed"
TASKS: Final = (STEPPED, GATHERED, SEALED)
# They save checkpoints, each of which ends the count of earlier losses.
SAVING: Final = (STEPPED, SEALED)
STEPS: Final = ("first", "second", "third")
SEAL: Final = Seal(keys={"chaos": hashlib.sha256(b"chaos").digest()}, clear=["n"])
# The members of a sealed argument that may be readable in the store.
READABLE: Final = frozenset({"sealed_with", "sealed", "n"})


def draw_task(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a push of one of these jobs. A history keeps sealed bytes as hexadecimal digits: see odd_values."""
    name = rng.choice(TASKS)
    argument: dict[str, Any] = {
        "n": number,
        "nap_s": round(rng.choice((0.0, 0.1, 0.4)), 3),
        "fails": rng.choice((0, 0, 0, 1)),
    }
    job: dict[str, Any] = {
        "id": new_job_id(),
        "name": name,
        "argument": argument,
        "keep_result": rng.random() < 0.5,
    }
    job["retry"] = {"base_s": 0.1, "factor": 2.0, "max_s": 1.0}
    if name == GATHERED:
        job["argument"] = {"rows": {**argument, "breaks": rng.random() < 0.1}}
    if name == SEALED:
        job["argument"] = {**argument, "secret": secret_of(number)}
        SEAL.seal_job(job)
        job["argument"]["sealed"] = job["argument"]["sealed"].hex()
    return job


def secret_of(number: int) -> str:
    return f"secret-{number}"


def result_of_step(number: int, name: str) -> list[Any]:
    return [number, name]


# --- reading them again


def number_of(argument: Any) -> Any:
    """Return the number of a push, by which its result is known again."""
    found = argument.get("rows", argument) if isinstance(argument, Mapping) else {}
    return found.get("n")


def readable(value: Any) -> Any:
    """Return an answer as a history keeps it: sealed bytes as digits."""
    if isinstance(value, dict):
        return {name: readable(one) for name, one in value.items()}
    return value.hex() if isinstance(value, bytes) else value


def opened(result: Any, job_id: str) -> Any:
    """Return a result that a history kept; one that does not open as an empty map."""
    if not isinstance(result, Mapping) or not isinstance(result.get("sealed"), str):
        return result
    try:
        return SEAL.opened({**result, "sealed": bytes.fromhex(result["sealed"])}, "result", job_id)
    except (SealError, ValueError):
        return {}
