"""The state of a worker as people see it."""

from dataclasses import replace

from jqmaster.domain.workers.worker import Worker, WorkerSpec

WORKER = Worker(
    "w", WorkerSpec("http://w", ("work",), 1, "node", 1, {}, "1", "s" * 32), 0, 1_000, False, False, 0
)


def test_the_command_of_an_operator_comes_before_silence() -> None:
    assert WORKER.state(1_500, 500) == "fresh"
    assert WORKER.state(1_501, 500) == "stale"
    assert replace(WORKER, is_draining=True).state(9_999, 500) == "draining"
    assert replace(WORKER, is_draining=True, is_detached=True).state(1_000, 500) == "detached"


def test_a_worker_that_pulls_is_given_jobs_while_its_poll_waits() -> None:
    pulling = replace(WORKER, spec=replace(WORKER.spec, url=None), polls_until_ms=2_000)
    assert WORKER.can_receive_jobs(5_000)
    assert pulling.can_receive_jobs(1_999)
    assert not pulling.can_receive_jobs(2_000)
