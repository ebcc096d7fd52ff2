from jqmaster.domain.jobs.job import (
    FINISHED,
    HOLDS_SLOTS,
    INDEXED,
    LISTED,
    STATES,
    TRANSITIONS,
    WAITING,
    ActionKind,
    JobState,
    states_for,
)


def test_every_state_is_waiting_running_or_finished() -> None:
    assert set(JobState) == WAITING | HOLDS_SLOTS | FINISHED
    assert not WAITING & FINISHED


def test_every_state_can_be_reached_and_no_state_is_a_trap() -> None:
    reached = {target for targets in TRANSITIONS.values() for target in targets}
    assert reached == set(JobState)
    for state in JobState:
        assert any(source is state for source, _ in TRANSITIONS)


def test_a_job_runs_only_by_a_claim() -> None:
    """A claim takes a ready job, a job whose callbacks came, or a job that waits for a worker to itself before its last
    run."""
    assert {key for key, targets in TRANSITIONS.items() if JobState.RUNNING in targets} == {
        (JobState.READY, "claim"),
        (JobState.AWAITING_CALLBACK, "claim"),
        (JobState.RETRYING, "claim_alone"),
    }


def test_a_finished_job_comes_back_by_hand_alone_or_with_its_predecessor() -> None:
    for (source, event), targets in TRANSITIONS.items():
        if (source, event) == (JobState.SKIPPED, "revive"):
            assert targets <= WAITING
        elif source in FINISHED:
            assert (event, targets) == ("retry", {JobState.READY})


def test_every_state_has_facts_and_no_two_share_a_code_an_index_or_a_position() -> None:
    assert set(STATES) == set(JobState) == set(LISTED)
    for told in ("code", "index", "position", "label"):
        assert len({getattr(facts, told) for facts in STATES.values()}) == len(JobState)
    assert set(JobState) - set(INDEXED) == {JobState.READY}


def test_actions_are_offered_where_the_table_of_transitions_has_their_event() -> None:
    events = {
        ActionKind.CANCEL: "cancel",
        ActionKind.RETRY: "retry",
        ActionKind.RUN: "run_now",
        ActionKind.SET_PRIORITY: "patch",
    }
    for action, event in events.items():
        assert set(states_for(action)) == {state for state, of_event in TRANSITIONS if of_event == event}
    # A deleted job has no state.
    assert set(states_for(ActionKind.DELETE)) == set(JobState) - HOLDS_SLOTS


def test_an_action_goes_through_the_states_as_jobs_do() -> None:
    """An action that goes through all states meets a job again that moves on meanwhile."""
    order = states_for(ActionKind.CANCEL)
    for (source, event), targets in TRANSITIONS.items():
        if source in WAITING and event in ("promote", "claim"):
            assert all(order.index(target) > order.index(source) for target in targets)
