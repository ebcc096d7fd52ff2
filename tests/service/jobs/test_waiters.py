from jqmaster.service.jobs.waiters import FinishWaiters


def test_everybody_who_listens_for_a_job_hears_of_its_end_and_nobody_else() -> None:
    waiters = FinishWaiters()
    with waiters.listening("a") as one, waiters.listening("a") as two, waiters.listening("b") as other:
        waiters.finished("a")
        assert (one.is_set(), two.is_set(), other.is_set()) == (True, True, False)


def test_after_a_gap_everybody_looks_again() -> None:
    waiters = FinishWaiters()
    with waiters.listening("a") as one, waiters.listening("b") as two:
        waiters.wake_all()
        assert one.is_set()
        assert two.is_set()


def test_nothing_is_kept_of_those_who_left() -> None:
    waiters = FinishWaiters()
    with waiters.listening("a"):
        with waiters.listening("a"):
            pass
        assert set(waiters._waiting) == {"a"}
    waiters.finished("a")
    assert not waiters._waiting
