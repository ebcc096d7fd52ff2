from jqmaster.domain.job import FINISHED, TRANSITIONS, WAITING, JobState


def test_every_state_is_waiting_running_or_finished() -> None:
    assert WAITING | {JobState.RUNNING} | FINISHED == set(JobState)
    assert not WAITING & FINISHED


def test_every_state_can_be_reached_and_no_state_is_a_trap() -> None:
    reached = {target for targets in TRANSITIONS.values() for target in targets}
    assert reached == set(JobState)
    for state in JobState:
        assert any(source is state for source, _ in TRANSITIONS)


def test_a_job_runs_only_by_a_claim() -> None:
    """Of a ready one; or, before the last run of one that workers were lost under, out of its wait for one to itself."""
    assert {key for key, targets in TRANSITIONS.items() if JobState.RUNNING in targets} == {
        (JobState.READY, "claim"),
        (JobState.RETRYING, "claim_alone"),
    }


def test_what_is_finished_comes_back_by_hand_alone() -> None:
    for (source, event), targets in TRANSITIONS.items():
        if source in FINISHED:
            assert (event, targets) == ("retry", {JobState.READY})
