"""The key table, the names built in code, and the document agree."""

from pathlib import Path

import pytest

from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.store.keys import KEYS, Keys

DOCUMENT = Path(__file__).parents[2] / "docs" / "redis_keys.md"


def table() -> str:
    lines = ["| key | type | lives | holds |", "|---|---|---|---|"]
    lines += [f"| `{info.pattern}` | {info.type} | {info.lives} | {info.holds} |" for info in KEYS]
    return "\n".join(lines) + "\n"


def test_the_document_shows_the_table_of_keys() -> None:
    """Return the table. To renew it, replace it with the output of `python -m tests.contract.test_keys`."""
    assert table() in DOCUMENT.read_text()


def test_every_key_is_built_as_its_row_says() -> None:
    keys = Keys("s")
    for info in KEYS:
        built = getattr(keys, info.name)
        key = built(*(f"{{{part}}}" for part in info.of)) if info.of else built
        assert key == "{s}:" + info.pattern


def test_every_other_name_is_the_tag_a_channel_or_the_beginning_of_a_row() -> None:
    keys = Keys("s")
    rest = (
        {name for name in vars(keys) if not name.startswith("_")}
        - {info.name for info in KEYS}
        - {"shard", "tag", "wake_channel", "finished_channel"}
    )
    beginnings = {keys.tag + info.stem + ":" for info in KEYS if info.of}
    assert {name for name in rest if getattr(keys, name) not in beginnings} == set()


def test_every_index_of_a_state_is_a_row() -> None:
    keys, patterns = Keys("s"), {info.pattern for info in KEYS}
    indexes = {keys.index(state) for state in JobState if state is not JobState.READY}
    assert indexes >= {keys.finished(state) for state in FINISHED}
    assert {key.removeprefix("{s}:") for key in indexes} <= patterns


def test_the_channels_carry_the_hash_tag_of_their_shard() -> None:
    keys = Keys("some-shard")
    assert {keys.wake_channel, keys.finished_channel} == {"{some-shard}:wake", "{some-shard}:finished"}


def test_only_final_states_have_an_index_of_finished_jobs() -> None:
    keys = Keys("s")
    for state in set(JobState) - FINISHED:
        with pytest.raises(ValueError, match="not a final state"):
            keys.finished(state)
    with pytest.raises(ValueError, match="by lane"):
        keys.index(JobState.READY)


if __name__ == "__main__":
    print(table())
