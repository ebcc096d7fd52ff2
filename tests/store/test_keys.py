"""Names of keys, and how code requests them."""

import pytest

from jqmaster.domain.jobs.job import FINISHED, INDEXED, STATES, JobState
from jqmaster.store.keys import Keys

KEYS = Keys("t")


def test_each_state_but_ready_has_an_index() -> None:
    assert [KEYS.index(state) for state in INDEXED] == [f"{{t}}:{STATES[state].index}" for state in INDEXED]
    with pytest.raises(ValueError, match="indexed by lane"):
        KEYS.index(JobState.READY)


def test_only_final_states_have_an_index_of_ended_jobs() -> None:
    assert {KEYS.finished(state) for state in FINISHED} == {KEYS.index(state) for state in FINISHED}
    with pytest.raises(ValueError, match="running is not a final state"):
        KEYS.finished(JobState.RUNNING)
