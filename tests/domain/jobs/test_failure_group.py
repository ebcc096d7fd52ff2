import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.jobs.failure_group import MAX_MESSAGE, failure_group_id, failure_group_ids, normalise


@pytest.mark.req("P8")
@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("", ""),
        ("connection reset", "connection reset"),
        ("order 4711 not found", "order <n> not found"),
        ("took 3.5s of -1e-3, limit 1,000.50", "took <n>s of <n>, limit <n>"),
        ("user42 in utf8", "user<n> in utf<n>"),
        ("job 0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b is gone", "job <id> is gone"),
        ("commit 3f2a9c81 of 9b74c9897bac770ffc029102a200c5de", "commit <n> of <id>"),
        ("at 0x7ffdeadbeef", "at <n>"),
        ("a deadbeef facade stays", "a deadbeef facade stays"),
        ("key a8Kd9fQ2zzLm01Xy expired", "key <id> expired"),
        ("'NoneType' object has no attribute 'x'", "'NoneType' object has no attribute 'x'"),
        ("can't open \"a b c\", don't", "can't open <text>, don't"),
        ("no such file: /var/lib/x-1/a.json, and/or ~/b", "no such file: <path>, and/or <path>"),
        (r"cannot read C:\Users\bob\x.txt now", "cannot read <path> now"),
        ("GET https://example.com/a?b=1 answered 503", "GET <url> answered 503"),
        ("HTTPError: 404 at https://x.example/4711", "HTTPError: 404 at <url>"),
        ("status=503, retry in 30 s", "status=503, retry in <n> s"),
        ("[Errno 111] refused by 10.0.0.7", "[Errno 111] refused by <address>"),
        ("Error: 4711.5 points", "Error: <n> points"),
        ("error 1795415810370", "error <n>"),
        ("KeyError: 'vat_id'", "KeyError: 'vat_id'"),
        ("KeyError: 'user42'", "KeyError: <text>"),
        ('column "price" of relation "orders" is null', 'column "price" of relation "orders" is null'),
        ("user 'alice' is unknown", "user <text> is unknown"),
        ("no route to 10.0.0.17:6379 or 2001:db8::17", "no route to <address> or <address>"),
        ("mail to a.b+c@example.com bounced", "mail to <address> bounced"),
        ("at 12:30:45 std::bad_alloc", "at <n>:<n>:<n> std::bad_alloc"),
        ("two\r\n  lines\x00\x1b[31m\u202e\u2028", "two lines [<n>m"),
    ],
)
def test_varying_text_becomes_a_placeholder(message: str, kind: str) -> None:
    assert normalise(message) == kind


@given(st.text(st.characters(), max_size=3_000))
def test_the_rest_of_the_text_is_printable_and_short(message: str) -> None:
    text = normalise(message)
    assert len(text) <= MAX_MESSAGE
    assert text.isprintable()
    assert text == text.strip()
    assert len(failure_group_id("n", "error", message)) == 16


@given(st.integers(0, 10**30), st.integers(0, 10**30), st.uuids(), st.uuids())
def test_failures_that_differ_in_what_varies_are_one_group(a: int, b: int, x: object, y: object) -> None:
    assert failure_group_id("mail", "error", f"order {a} of {x} failed") == failure_group_id(
        "mail", "error", f"order {b} of {y} failed"
    )


def test_status_codes_and_keys_tell_groups_apart_and_the_groups_of_the_former_version_are_known() -> None:
    for one, other in (
        ("HTTPError: 404", "HTTPError: 503"), ("KeyError: 'vat_id'", "KeyError: 'email'"),
        ('column "price" is null', 'column "vat" is null'),
    ):  # fmt: skip
        assert failure_group_id("mail", "error", one) != failure_group_id("mail", "error", other)
        (present, former), (_, former_of_other) = (
            failure_group_ids("mail", "error", m) for m in (one, other)
        )
        assert present == failure_group_id("mail", "error", one)
        assert former == former_of_other != present


def test_name_cause_and_kind_tell_groups_apart() -> None:
    ids = {
        failure_group_id(name, cause, message)
        for name in ("mail", "mail2")
        for cause in ("error", "timeout")
        for message in ("no route", "no file", "")
    }
    assert len(ids) == 12


@pytest.mark.parametrize(
    "part",
    ["error ", "key 'a", "'", '"', "1.", "a:", "/a", "a@", "a.", "1-", "://", "0x", "`", "A", "::", "1e"],
)
def test_no_message_is_slow(part: str) -> None:
    # Exponential backtracking would never finish.
    assert len(normalise(part * 1_000)) <= MAX_MESSAGE
