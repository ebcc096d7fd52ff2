# Shows: JobFailed, JobCanceled, JobDiscarded, JobSkipped, ResultNotKept, ResultGone, UnreadableResult, NoResultError, NotFinished
from worker_sdk import (
    Discard,
    Fail,
    JobCanceled,
    JobDiscarded,
    JobFailed,
    JobHandle,
    JobSkipped,
    NoResultError,
    NotFinished,
    ResultGone,
    ResultNotKept,
    Tasks,
    UnreadableResult,
)
from worker_sdk.testing import inline, recording

tasks = Tasks()


@tasks.task("order.pay", keep_result=True)
def pay(order: int) -> str:
    if order == 1:
        raise Fail("the card has expired")
    if order == 2:
        raise Discard("the order was deleted")
    return f"receipt {order}"


def told(handle: JobHandle[str]) -> str:
    try:
        return handle.get(timeout=0)
    except JobFailed as failed:
        return f"failed: {failed.message}"
    except JobDiscarded as ended:
        return f"nothing to do: {ended.message}"
    except (JobCanceled, JobSkipped):
        return "it did not run"
    except (ResultNotKept, ResultGone, UnreadableResult) as ended:
        return f"it succeeded, and the result is not here: {ended}"
    except NoResultError as ended:  # the base of all of these
        return str(ended)
    except NotFinished as waiting:
        return f"it is {waiting.state}"


with inline(raises=False):
    assert told(pay.enqueue(1)) == "failed: the card has expired"
    assert told(pay.enqueue(2)) == "nothing to do: the order was deleted"
    assert told(pay.enqueue(3)) == "receipt 3"
    assert told(pay.using(keep_result=False).enqueue(3)).startswith("it succeeded")
with recording():
    assert told(pay.enqueue(3)) == "it is ready"
