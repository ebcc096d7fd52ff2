# Shows: inline
from worker_sdk import Tasks
from worker_sdk.testing import inline

tasks = Tasks()


@tasks.task("number.half", keep_result=True, max_retry=0)
def half(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


with inline() as jobs:
    assert half.enqueue(42).get() == 21
    assert len(jobs) == 1
    try:
        half.enqueue(3)
    except ValueError as exc:  # the exception of the task, with its traceback
        assert str(exc) == "3 is odd"
