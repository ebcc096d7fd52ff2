"""The table of keys, the names that code builds, and the document are one."""

from pathlib import Path

import pytest

from jqmaster.domain.job import FINISHED, JobState
from jqmaster.store.keys import KEYS, Keys

DOCUMENT = Path(__file__).parents[2] / "docs" / "redis_keys.md"


def table() -> str:
    lines = ["| key | type | lives | holds |", "|---|---|---|---|"]
    lines += [f"| `{info.pattern}` | {info.type} | {info.lives} | {info.holds} |" for info in KEYS]
    return "\n".join(lines) + "\n"


def test_the_document_shows_the_table_of_keys() -> None:
    """To renew it, put the output of `python -m tests.contract.test_keys` in the place of the table."""
    assert table() in DOCUMENT.read_text()


def test_every_key_that_code_names_is_in_the_table() -> None:
    keys = Keys("s")
    patterns = {info.pattern for info in KEYS}
    channels = {"wake_channel", "finished_channel"}
    for name, value in vars(keys).items():
        if name not in channels | {"tag"}:
            rest = value.removeprefix("{s}:")
            assert any(p == rest or (p.startswith(rest) and rest.endswith(":")) for p in patterns), name
    built = {
        keys.job("{job_id}"), keys.history("{job_id}"), keys.result("{job_id}"), keys.ready("{lane}"),
        keys.action("{action_id}"), keys.worker("{worker_id}"), keys.claims("{worker_id}"), keys.mail("{worker_id}"),
        keys.idempotency("{digest}"),
        keys.session("{digest}"), keys.sessions("{subject}"),
        keys.lane("{lane}"), keys.lanes("{name}"), keys.open_lanes("{group}"), keys.open_groups("{name}"),
        keys.flushed("{master_id}"), keys.minute(1).replace("1", "{number}"), keys.hour(1).replace("1", "{number}"),
        keys.parked("{gate}", "{group}"), keys.waiters("{gate}"), keys.slots("{gates}"), keys.starts("{gate}"),
        keys.limits("{cid}"), keys.overrides("{cid}"), keys.gates("{cid}"), keys.crowded("{cid}"), keys.served("{cid}"),
        *(keys.index(state) for state in JobState if state is not JobState.READY),
        *(keys.finished(state) for state in FINISHED),
    }  # fmt: skip
    assert {key.removeprefix("{s}:") for key in built} <= patterns


def test_every_key_carries_the_hash_tag_of_its_shard() -> None:
    keys = Keys("some-shard")
    assert all(str(value).startswith("{some-shard}:") for value in vars(keys).values())


def test_only_final_states_have_an_index_of_finished_jobs() -> None:
    keys = Keys("s")
    for state in set(JobState) - FINISHED:
        with pytest.raises(ValueError, match="not a final state"):
            keys.finished(state)
    with pytest.raises(ValueError, match="by lane"):
        keys.index(JobState.READY)


if __name__ == "__main__":
    print(table())
