"""The error for refused jobs, whether they were pushed alone or in a bulk."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from jqmaster.errors import FieldError, JqmasterError
from jqmaster.store.jobs.enqueue_outcomes import PushRefusal

NOTHING_ACCEPTED: Final = "no job was accepted"
OTHERS_ACCEPTED: Final = "all other jobs were accepted"


def error_of(
    refused: Mapping[int, PushRefusal], numbers: Sequence[int] | None = None, others: str = NOTHING_ACCEPTED
) -> JqmasterError:
    """Return one error for all refused jobs.

    * `refused`: the faults by position.
    * `numbers`: the index of each position in a bulk; None if the job was pushed alone.
    * `others`: a text that says what happened to the other jobs of the bulk.
    """
    # The error has only one code. Prefer the code of a refusal that a repeated push cannot resolve.
    first = min(refused.values(), key=attrgetter("may_pass"))
    errors = [
        FieldError(one.field_path if numbers is None else ("jobs", numbers[n], *one.field_path), one.rule)
        for n, one in refused.items()
        if one.field_path
    ]
    detail = first.detail(len(refused))
    return first.error(detail if numbers is None else f"{detail}; {others}", errors)
