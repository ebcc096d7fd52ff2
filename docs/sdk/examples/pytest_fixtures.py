# Shows: recorded_jobs, inline_jobs, live_master
# conftest.py: pytest_plugins = ["worker_sdk.testing.pytest_plugin"]
from worker_sdk import Tasks, Worker
from worker_sdk.testing import Recorded

tasks = Tasks()


@tasks.task("number.double", keep_result=True)
def double(number: int) -> int:
    return number * 2


def test_a_number_is_sent(recorded_jobs: Recorded) -> None:
    double.enqueue(21)
    assert recorded_jobs.only(double).arguments == {"number": 21}


def test_a_number_is_doubled(inline_jobs: Recorded) -> None:
    assert double.enqueue(21).get() == 42


def test_a_worker_runs_the_job(live_master: str) -> None:
    handle = double.enqueue(21)
    Worker(tasks=tasks).run_burst(idle_s=1)  # no other worker runs
    assert handle.get(timeout=10) == 42
