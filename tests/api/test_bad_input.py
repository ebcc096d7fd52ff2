"""Bad input over real HTTP: input that cannot be parsed, input that is understood and refused, and proof that it leaves
nothing behind.

Row numbers are those of tests/contract/test_bad_input_rows.py. Costs are CPU seconds of this thread, in which client
and master both live: other processes do not change them.
"""

import asyncio
import gc
import json
import math
import pickle
import struct
import time
import tracemalloc
import zipfile
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import httpx
import msgpack
import pytest
import pytest_asyncio

from jqmaster.app import Master
from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.contract import check_answer
from tests.support.each import for_each
from tests.support.master import ACCEPT, Api, master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), real_time.MASTER]

MIB = 1024 * 1024
NAME = msgpack.packb("name") + msgpack.packb("work")
ARGUMENT = msgpack.packb("argument")
TYPE = "application/msgpack"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(store_server: StoreServer) -> AsyncIterator[tuple[Master, Api]]:
    """One master for all: each test checks that it left nothing behind."""
    async with master_on(store_server.url) as (master, api):
        yield master, api


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: tuple[Master, Api]) -> AsyncIterator[Api]:
    """Assert that the test's input was refused: the counts are unchanged."""
    _, client = shared
    before = await client.counts()
    yield client
    assert await client.counts() == before


@pytest_asyncio.fixture(loop_scope="module")
async def open_api(shared: tuple[Master, Api]) -> Api:
    """Return the client without that check, for tests of accepted input."""
    return shared[1]


async def send(
    api: Api,
    body: bytes,
    content_type: str | None = TYPE,
    *,
    path: str = "/api/jobs",
    accept: str | None = None,
) -> tuple[int, dict[str, Any]]:
    """Return status and problem; check every answer against the contract and its length against a bound."""
    headers = {"Accept": accept or TYPE} | ({"Content-Type": content_type} if content_type else {})
    response = await api.http.post(path, content=body, headers=headers)
    is_json = response.headers["content-type"].endswith("json")
    value = json.loads(response.content) if is_json else msgpack.unpackb(response.content)
    check_answer("POST", path, response.status_code, response.headers, value)
    if response.status_code >= 400:
        assert len(response.content) <= 4096
        assert b"Traceback" not in response.content
        assert response.status_code < 500 or response.status_code == 503
    return response.status_code, value


def envelope(*pairs: bytes) -> bytes:
    """Build a map from encoded keys and values in this order."""
    return bytes([0x80 + len(pairs)]) + b"".join(pairs)


def with_argument(value: bytes) -> bytes:
    return envelope(NAME, ARGUMENT + value)


async def refuses(api: Api, body: bytes, status: int, code: str | None = None) -> None:
    """Assert that the body is refused, alone and within a bulk."""
    answer = await send(api, body)
    assert answer[0] == status, answer
    assert code is None or answer[1]["code"] == code
    bulk = b"\x81" + msgpack.packb("jobs") + b"\x92" + envelope(NAME) + body
    answer = await send(api, bulk, path="/api/jobs/bulk")
    assert answer[0] == status, answer


# --- content type


@pytest.mark.row(27)
@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "application/octet-stream", "*/*", "msgpack"],
)  # fmt: skip
async def test_a_body_of_another_type_is_not_read(api: Api, content_type: str | None) -> None:
    for path in ("/api/jobs", "/api/jobs/bulk", "/api/workers"):
        status, problem = await send(api, envelope(NAME), content_type, path=path)
        assert (status, problem["code"]) == (415, "unsupported_media_type")


@pytest.mark.row(28)
@pytest.mark.parametrize(
    "content_type",
    ["application/msgpack; charset=latin-1", "application/json; charset=utf-16", "application/msgpack; version=2",
     "application/msgpack, application/json"],
)  # fmt: skip
async def test_a_body_in_another_charset_or_of_two_types_is_not_read(api: Api, content_type: str) -> None:
    assert (await send(api, envelope(NAME), content_type))[0] == 415


@pytest.mark.row(28)
async def test_two_content_types_are_none(api: Api) -> None:
    headers = [("Content-Type", TYPE), ("Content-Type", "application/json")]
    response = await api.http.post("/api/jobs", content=envelope(NAME), headers=headers)
    assert response.status_code == 415


@pytest.mark.row(10)
@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip"])
async def test_an_encoded_body_is_not_read(api: Api, coding: str) -> None:
    headers = {"Content-Type": TYPE, "Content-Encoding": coding}
    response = await api.http.post("/api/jobs", content=envelope(NAME), headers=headers)
    assert response.status_code == 415


@pytest.mark.row(29)
async def test_an_answer_of_no_type_of_ours_is_not_acceptable(api: Api) -> None:
    for accept in ("image/png", "text/html", "application/msgpack;q=0", "application/xml, text/*"):
        status, problem = await send(api, envelope(NAME), accept=accept)
        assert (status, problem["code"]) == (406, "not_acceptable")


@pytest.mark.parametrize(
    ("content_type", "accept", "expected"),
    [
        (TYPE, "*/*", TYPE), (TYPE, "application/json", "application/json"),
        ("application/json", "*/*", "application/json"),
        ("application/json", TYPE, TYPE), ("application/x-msgpack", "application/*", TYPE),
        ("application/vnd.msgpack", "*/*", TYPE),
        ("application/json; charset=utf-8", "text/html, application/json;q=0.9, */*;q=0.1", "application/json"),
    ],
)  # fmt: skip
async def test_the_client_chooses_how_it_speaks_and_hears(
    open_api: Api, content_type: str, accept: str, expected: str
) -> None:
    job = {"name": "work", "argument": {"n": 1}}
    good = json.dumps(job).encode() if "json" in content_type else msgpack.packb(job)
    headers = {"Content-Type": content_type, "Accept": accept}
    response = await open_api.http.post("/api/jobs", content=good, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (201, expected)
    job_id = (response.json() if "json" in expected else msgpack.unpackb(response.content))["id"]
    assert (await open_api.job(job_id))["argument"] == {"n": 1}
    bad = await open_api.http.post(
        "/api/jobs", content=b"{}" if "json" in content_type else b"\x80", headers=headers
    )
    assert (bad.status_code, bad.headers["content-type"]) == (422, expected.replace("/json", "/problem+json"))


@pytest.mark.req("J3")
async def test_json_carries_what_json_cannot_say(open_api: Api) -> None:
    argument = {
        "bin": {"$bin": "AP8="},
        "ext": {"$ext": [5, "YWJj"]},
        "text": "ä🙂",
        "n": [1, -1.5, None, True],
    }
    answer = await open_api.http.post("/api/jobs", json={"name": "work", "argument": argument})
    job_id = answer.json()["id"]
    assert (await open_api.job(job_id))["argument"] == {
        "bin": b"\x00\xff", "ext": msgpack.ExtType(5, b"abc"), "text": "ä🙂", "n": [1, -1.5, None, True],
    }  # fmt: skip
    view = await open_api.http.get(f"/api/jobs/{job_id}", headers={"Accept": "application/json"})
    assert view.json()["argument"] == argument


# --- messages that cannot be parsed


@pytest.mark.row(30)
async def test_an_empty_body_is_refused(api: Api) -> None:
    for content_type in (TYPE, "application/json"):
        assert (await send(api, b"", content_type))[1]["code"] == "empty_body"

    async def nothing() -> AsyncIterator[bytes]:
        yield b""

    response = await api.http.post("/api/jobs", content=nothing(), headers={"Content-Type": TYPE})
    assert response.status_code == 400


@pytest.mark.row(31)
async def test_a_message_cut_anywhere_is_refused(api: Api) -> None:
    whole = msgpack.packb(
        {"name": "work", "argument": {"a": [1.5, b"bin", "text", 70_000]}, "priority": 300, "tags": ["a"]}
    )
    for length in range(1, len(whole)):
        status, problem = await send(api, whole[:length])
        assert status == 400, (length, problem)


@pytest.mark.row(32)
@pytest.mark.parametrize("more", [b"\xc0", b"\x00", b"\n", envelope(NAME)])
async def test_bytes_after_the_message_are_refused(api: Api, more: bytes) -> None:
    assert (await send(api, envelope(NAME) + more))[0] == 400
    bulk = b"\x81" + msgpack.packb("jobs") + b"\x91" + envelope(NAME) + more
    assert (await send(api, bulk, path="/api/jobs/bulk"))[0] == 400
    assert (await send(api, b'{"name":"work"}' + (more.strip() or b"x"), "application/json"))[0] == 400


@pytest.mark.row(33)
@pytest.mark.parametrize(
    "body",
    [
        b"\xc1", b"\x81\xc1\xc0", envelope(msgpack.packb("name") + b"\xc1"), with_argument(b"\xc1"),
        with_argument(b"\x92\x01\xc1"),
        with_argument(b"\x81\xc1\x01"), with_argument(b"\x81\xa1a\xc1"),
    ],
)  # fmt: skip
async def test_the_reserved_byte_is_refused(api: Api, body: bytes) -> None:
    assert (await send(api, body))[0] == 400


HUGE = [tag + b"\xff\xff\xff\xff" for tag in (b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9")]


@pytest.mark.row(34)
@pytest.mark.parametrize("claim", HUGE)
async def test_a_length_of_four_billion_costs_nothing(api: Api, claim: bytes) -> None:
    bodies = [
        claim, claim + b"\x01" * 100, envelope(claim), envelope(msgpack.packb("name") + claim), with_argument(claim),
        with_argument(b"\x91" + claim + b"\x01" * 1000), with_argument(b"\x81\xa1a" + claim),
        envelope(NAME, msgpack.packb("tags") + claim),
    ]  # fmt: skip
    for body in bodies:
        await refuses_within(api, body, 400, MIB)
    bulk = b"\x81" + msgpack.packb("jobs") + claim
    await refuses_within(api, bulk, 400 if claim[0] == 0xDD else 422, MIB, path="/api/jobs/bulk")


@pytest.mark.row(35)
@pytest.mark.parametrize("level", [b"\x91", b"\x81\xa1a", b"\xdc\x00\x01"])
async def test_a_hundred_thousand_levels_cannot_be_parsed(api: Api, level: bytes) -> None:
    tower = level * 100_000 + b"\xc0"
    for body in (tower, with_argument(tower), envelope(NAME, msgpack.packb("tags") + tower)):
        await refuses_within(api, body, 400, 16 * MIB)
    for text in (b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
        status, _ = await send(api, b'{"name":"work","argument":' + text + b"}", "application/json")
        assert status == 400


@pytest.mark.row(36)
async def test_thirty_two_levels_pass_and_thirty_three_do_not(api: Api) -> None:
    for level in (b"\x91", b"\x81\xa1a"):
        await refuses(api, with_argument(level * 33 + b"\xc0"), 422, "too_deep")
        await refuses(api, with_argument(level * 900 + b"\xc0"), 422, "too_deep")
    nested = "[" * 33 + "]" * 33
    assert (await send(api, f'{{"name":"work","argument":{nested}}}'.encode(), "application/json"))[1][
        "code"
    ] == "too_deep"


@pytest.mark.row(36)
async def test_thirty_two_levels_are_kept(open_api: Api) -> None:
    status, answer = await send(open_api, with_argument(b"\x91" * 32 + b"\xc0"))
    assert status == 201
    assert (await open_api.job(answer["id"]))["argument_bytes"] == 33


@pytest.mark.row(37)
async def test_a_bomb_of_empty_maps_is_refused_before_it_unfolds(api: Api) -> None:
    maps = b"\x80" * MIB
    array = b"\xdd" + struct.pack(">I", MIB) + maps
    bodies = [array, envelope(NAME, msgpack.packb("tags") + array), with_argument(array)]
    # The last body needs no false length: it nests arrays of fifteen.
    bodies.append(with_argument(b"\xdd" + struct.pack(">I", 60_000) + (b"\x9f" + b"\x80" * 15) * 60_000))
    for body in bodies:
        await refuses_within(api, body, 413, 12 * MIB)
        times = []
        for _ in range(3):
            began = time.thread_time()
            assert (await send(api, body))[0] == 413
            times.append(time.thread_time() - began)
        assert min(times) < 0.1
    text = b"[" + b"{}," * 350_000 + b"{}]"
    began = time.thread_time()
    status, problem = await send(api, b'{"name":"work","argument":' + text + b"}", "application/json")
    assert (status, problem["code"]) == (413, "too_many_nodes")
    assert time.thread_time() - began < 0.5


@pytest.mark.row(37)
async def test_a_bulk_of_bombs_is_refused_at_the_first(api: Api) -> None:
    bomb = with_argument(b"\xdc\x75\x30" + b"\x80" * 30_000)
    bulk = b"\x81" + msgpack.packb("jobs") + b"\xdc\x01\x00" + bomb * 256
    await refuses_within(api, bulk, 413, 40 * MIB, path="/api/jobs/bulk")


@pytest.mark.row(38)
@pytest.mark.parametrize(
    "body",
    [
        envelope(NAME, NAME), envelope(NAME, ARGUMENT + b"\x01", ARGUMENT + b"\x01"),
        with_argument(b"\x82\xa1a\x01\xa1a\x01"),
        with_argument(b"\x82\xa1a\x01\xd9\x01a\x01"),
        envelope(NAME, msgpack.packb("headers") + b"\x82\xa1a\xa1b\xa1a\xa1c"),
    ],
)  # fmt: skip
async def test_a_key_twice_is_refused(api: Api, body: bytes) -> None:
    await refuses(api, body, 400, "duplicate_key")


@pytest.mark.row(38)
async def test_a_key_twice_is_refused_in_json(api: Api) -> None:
    for body in (b'{"name":"a","name":"b"}', b'{"name":"a","argument":{"x":1,"x":2}}'):
        status, problem = await send(api, body, "application/json")
        assert (status, problem["code"]) == (400, "duplicate_key")


@pytest.mark.row(39)
@pytest.mark.parametrize(
    "key", [b"\x01", b"\xc0", b"\x90", b"\x80", b"\xc4\x04name", b"\xcb" + b"\0" * 8, b"\xd4\x05a"]
)
async def test_a_key_of_the_envelope_that_is_no_string_is_refused(api: Api, key: bytes) -> None:
    await refuses(api, envelope(NAME, key + b"\x01"), 400)
    await refuses(api, envelope(NAME, msgpack.packb("headers") + b"\x81" + key + b"\xa1a"), 400)


@pytest.mark.row(40)
async def test_a_key_of_the_argument_that_is_no_string_is_refused(api: Api) -> None:
    many = b"\xde\x03\xe8" + b"".join(msgpack.packb(n * (2**61 - 1) % 2**64) + b"\x01" for n in range(1000))
    for argument in (b"\x81\x01\x01", b"\x91\x81\xc0\x01", b"\x81\xc4\x01a\x01", many):
        began = time.thread_time()
        await refuses(api, with_argument(argument), 422, "key_not_str")
        assert time.thread_time() - began < 0.5


@pytest.mark.row(41)
@pytest.mark.parametrize(
    "text", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80", b"a\x80"]
)
async def test_a_string_that_is_not_utf8_is_refused(api: Api, text: bytes) -> None:
    string = bytes([0xA0 + len(text)]) + text
    for body in (
        envelope(msgpack.packb("name") + string), envelope(NAME, string + b"\x01"), with_argument(string),
        with_argument(b"\x81" + string + b"\x01"),
        with_argument(b"\xd9" + bytes([len(text)]) + text), envelope(NAME, msgpack.packb("tags") + b"\x91" + string),
    ):  # fmt: skip
        await refuses(api, body, 400)
    assert (await send(api, b'{"name":"' + text + b'"}', "application/json"))[0] == 400


@pytest.mark.row(41)
async def test_a_lone_surrogate_in_json_is_refused(api: Api) -> None:
    for body in (
        b'{"name":"work","argument":"\\ud800"}',
        b'{"name":"work","argument":{"\\udfff":1}}',
        b'{"name":"\\ud800"}',
    ):
        assert (await send(api, body, "application/json"))[0] in (400, 422)


@pytest.mark.row(42)
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["timeout", "delay", "priority", "max_retry"])
async def test_a_number_that_is_none_is_refused(api: Api, field: str, number: float) -> None:
    status, problem = await send(api, msgpack.packb({"name": "work", field: number}))
    assert (status, [e["loc"] for e in problem["errors"]]) == (422, [[field]])
    assert (await send(api, json.dumps({"name": "work", field: number}).encode(), "application/json"))[
        0
    ] == 400


@pytest.mark.row(42)
async def test_minus_zero_is_no_whole_number_and_no_timeout(api: Api) -> None:
    for field in ("timeout", "priority", "max_retry"):
        assert (await send(api, msgpack.packb({"name": "work", field: -0.0})))[0] == 422


@pytest.mark.row(43, 44)
async def test_odd_values_inside_an_argument_are_kept_bit_for_bit(open_api: Api) -> None:
    nan = b"\xcb\x7f\xf8\x00\x00\x00\x00\x0b\xad"
    for value in (
        nan,
        b"\xca\xff\xc0\x00\x01",
        b"\xcb\x80" + b"\0" * 7,
        b"\xd4\x05a",
        b"\xc7\x03\x7fabc",
        b"\xc7\x00\x10",
    ):
        status, answer = await send(open_api, with_argument(b"\x92\x01" + value))
        assert status == 201
        view = await open_api.http.get(f"/api/jobs/{answer['id']}", headers=ACCEPT)
        assert b"\x92\x01" + value in view.content
        shown = await open_api.http.get(f"/api/jobs/{answer['id']}", headers={"Accept": "application/json"})
        assert shown.status_code == 200
        json.loads(shown.content, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.row(44)
@pytest.mark.parametrize("code", [-128, -100, -2])
async def test_a_reserved_extension_code_is_refused_and_the_field_named(api: Api, code: int) -> None:
    value = b"\xc7\x03" + struct.pack("b", code) + b"abc"
    for argument in (value, b"\x91" + value, b"\x81\xa1a" + value):
        await refuses(api, with_argument(argument), 422, "bad_ext")
        status, problem = await send(api, with_argument(argument))
        assert [e["loc"] for e in problem["errors"]] == [["argument"]]
    await refuses(api, envelope(NAME, msgpack.packb("headers") + value), 422, "bad_ext")
    for given in (code, [code, "YWJj"]):
        body = json.dumps({"name": "work", "argument": [{"$ext": given}]}).encode()
        status, problem = await send(api, body, "application/json")
        assert (status, problem["code"]) == (422, "bad_ext")


@pytest.mark.row(44)
@pytest.mark.parametrize("field", ["name", "priority", "run_at", "tags", "headers", "id"])
async def test_an_extension_in_the_envelope_is_refused(api: Api, field: str) -> None:
    body = msgpack.packb({"name": "work", field: msgpack.ExtType(5, b"abc")})
    assert (await send(api, body))[0] == 422


@pytest.mark.row(45)
@pytest.mark.parametrize(
    "timestamp",
    [
        b"\xd7\xff" + struct.pack(">Q", (10**9) << 34), b"\xc7\x0c\xff" + struct.pack(">Iq", 10**9, 0),
        b"\xc7\x0c\xff" + struct.pack(">Iq", 0, 300_000 * 31_556_952),
        b"\xc7\x0c\xff" + struct.pack(">Iq", 0, -(2**62)),
        b"\xc7\x0c\xff" + struct.pack(">Iq", 0, -1), b"\xd4\xff\x00", b"\xc7\x00\xff",
    ],
)  # fmt: skip
async def test_an_impossible_timestamp_is_refused(api: Api, timestamp: bytes) -> None:
    await refuses(api, envelope(NAME, msgpack.packb("run_at") + timestamp), 422)
    if timestamp[3:] != struct.pack(">Iq", 0, -1):  # before 1970 is not a time to run at, but is a time
        await refuses(api, with_argument(timestamp), 422)


@pytest.mark.row(48, 49)
async def test_other_formats_cannot_be_parsed(api: Api) -> None:
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("name", "work")
    job = {"name": "work"}
    for body in (
        json.dumps(job).encode(), pickle.dumps(job), pickle.dumps(job, 0), b"name: work\n", b"---\nname: work\n",
        archive.getvalue(),
        b"<job/>", b"name=work", b"\x1f\x8b\x08\x00", b"\x00" * 64,
    ):  # fmt: skip
        assert (await send(api, body))[0] == 400, body[:20]
    for body in (
        msgpack.packb(job),
        pickle.dumps(job),
        b"name: work",
        archive.getvalue(),
        b"NaN",
        b"{'name':'work'}",
        b"\xef\xbb\xbf{}",
    ):
        assert (await send(api, body, "application/json"))[0] in (400, 422), body[:20]


@pytest.mark.row(50)
@pytest.mark.parametrize(
    "value", [None, True, 0, 1.5, "name", b"name", [], [{"name": "work"}], msgpack.ExtType(1, b"")]
)
async def test_a_message_that_is_no_map_is_refused(api: Api, value: Any) -> None:
    for path in ("/api/jobs", "/api/jobs/bulk", "/api/workers"):
        assert (await send(api, msgpack.packb(value), path=path))[0] == 422
    bulk = {"jobs": [{"name": "work"}, value]}
    status, problem = await send(api, msgpack.packb(bulk), path="/api/jobs/bulk")
    assert (status, problem["errors"][0]["loc"]) == (422, ["jobs", 1])


# --- jobs that are understood and refused

BAD_JOBS: list[tuple[int, str, dict[str, Any]]] = [
    *((46, field, {field: value}) for field in ("priority", "max_retry") for value in (1.0, True, "1", None, [1])),
    *((46, field, {field: value}) for field in ("timeout", "delay") for value in (True, "1", [1])),
    *((46, field, {field: value})
      for field, value in {"keep_result": 1, "rerun_lost": "yes", "tags": "a", "headers": ["a"], "retry": 3}.items()),
    (46, "timeout", {"timeout": None}),
    (46, "tags", {"tags": [1]}),
    (46, "headers", {"headers": {"a": 1}}),
    (46, "tags", {"tags": ["x" * 65]}),
    (46, "tags", {"tags": ["x"] * 17}),
    (46, "retry", {"retry": {"base_s": -1}}),
    (46, "retry", {"retry": {"factor": 0.5}}),
    (46, "retry", {"retry": {"max_s": 1e9}}),
    (46, "retry", {"retry": {"tries": 3}}),
    *((47, field, {field: 1}) for field in ("Name", "queue_name", "argument ", "__class__", "callback")),
    *((51, "name", {"name": name}) for name in (
        "", "x" * 201, "x" * 1000, "two words", "tab\t", "nul\x00", "line\n", "<script>", "\u202eevil", "🙂", "ä",
        "a;b", "a%2e", "é" * 200, None, 1, ["a"],
    )),
    *((52, "priority", {"priority": value}) for value in (2**31, -(2**31) - 1, 1.5, "1", True, 2**63)),
    *((53, "max_retry", {"max_retry": value}) for value in (-1, 2**31, 1001)),
    *((54, "timeout", {"timeout": value}) for value in (0, -1, 1e-9, 7 * 86_400 + 1, 1e308)),
    *((56, "run_at", {"run_at": value}) for value in (
        "9999-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-11-21T04:30:00", "2026-11-21", "tomorrow", "", 0,
        1795238640,
        "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-21T24:00:01Z", "2026-11-21T04:30:00+25:00",
        "2026-11-21T04:30:00Z\n",
        "２０２６-11-21T04:30:00Z", "x" * 10_000,
    )),
    *((56, "expires_at", {"expires_at": value}) for value in ("9999-01-01T00:00:00Z", "soon", 5)),
    (57, "", {"run_at": "2026-11-21T04:30:00Z", "delay": 1}),
    (57, "delay", {"delay": -1}),
    (57, "delay", {"delay": 1e12}),
    *((61, "id", {"id": value}) for value in (
        "", "x", "0" * 36, "0198C3F4-5E6A-7B8C-9D0E-1F2A3B4C5D6E", "0198c3f4-5e6a-0b8c-9d0e-1f2a3b4c5d6e",
        "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e\n", "../../etc", 7,
    )),
    *((62, "key", {"key": value}) for value in ("", "x" * 201, "é" * 101, 7)),
    *((62, "key_ttl", {"key": "k", "key_ttl": value}) for value in (0, -1, 30 * 86_400 + 1, "1 h")),
    *((63, field, {field: "none"})
      for field in ("queue", "constraint", "batch", "unique", "notify_url", "state", "worker_id")),
]  # fmt: skip


@pytest.mark.row(46, 47, 51, 52, 53, 54, 56, 57, 61, 62, 63)
@for_each(
    ("row", "field", "fields"),
    BAD_JOBS,
    ids=lambda value: repr(value)[:60] if isinstance(value, dict) else None,
)
async def test_a_job_that_makes_no_sense_is_refused_and_the_field_named(
    api: Api, row: int, field: str, fields: dict[str, Any]
) -> None:
    job = {"name": "work", **fields}
    for body, content_type, path, prefix in (
        (msgpack.packb(job), TYPE, "/api/jobs", []),
        (json.dumps(job).encode(), "application/json", "/api/jobs", []),
        (msgpack.packb({"jobs": [{"name": "work"}, job]}), TYPE, "/api/jobs/bulk", ["jobs", 1]),
    ):
        status, problem = await send(api, body, content_type, path=path)
        if problem["code"] in ("integer_out_of_range", "number_out_of_range"):
            continue
        assert (status, problem["code"]) == (422, "invalid")
        assert problem["errors"]
        for error in problem["errors"]:
            assert error["loc"][: len(prefix)] == prefix
            assert not field or error["loc"][len(prefix)] == field


@pytest.mark.row(51)
async def test_a_job_without_a_name_is_refused(api: Api) -> None:
    for body in (b"\x80", msgpack.packb({"argument": 1})):
        status, problem = await send(api, body)
        assert (status, [e["loc"] for e in problem["errors"]]) == (422, [["name"]])


async def test_a_refusal_echoes_little_and_escapes_it(api: Api) -> None:
    poison = "\x1b[31m<img src=x onerror=alert(1)>\u202e" * 200
    for job in (
        {"name": poison},
        {"name": "work", poison: 1},
        {"name": "work", "tags": [poison]},
        {"name": "work", "run_at": poison},
    ):
        for accept in (TYPE, "application/json"):
            headers = {"Content-Type": TYPE, "Accept": accept}
            response = await api.http.post("/api/jobs", content=msgpack.packb(job), headers=headers)
            assert response.status_code == 422
            assert len(response.content) <= 4096
            assert b"\x1b" not in response.content
            assert b"onerror=alert(1)>" * 2 not in response.content
            assert "\u202e".encode() not in response.content


async def test_a_thousand_faults_are_told_in_four_kilobytes(api: Api) -> None:
    job = {"name": "work", **{f"unknown_{n}": n for n in range(1000)}}
    status, problem = await send(api, msgpack.packb(job))
    assert status == 422
    assert "more" in problem["errors"][-1]["msg"]
    bulk = {"jobs": [{"name": ""}] * 5000}
    status, problem = await send(api, msgpack.packb(bulk), path="/api/jobs/bulk")
    assert status == 422
    assert problem["errors"][0]["loc"] == ["jobs", 0, "name"]


@pytest.mark.row(58)
async def test_an_argument_over_the_limit_is_refused(api: Api) -> None:
    limit = 256 * 1024
    for argument in (b"x" * (limit - 4), "x" * limit):
        status, problem = await send(api, msgpack.packb({"name": "work", "argument": argument}))
        assert (status, problem["code"], problem["errors"][0]["loc"]) == (
            413,
            "argument_too_large",
            ["argument"],
        )
    bulk = {"jobs": [{"name": "work"}, {"name": "work", "argument": b"x" * limit}]}
    status, problem = await send(api, msgpack.packb(bulk), path="/api/jobs/bulk")
    assert (status, problem["errors"][0]["loc"]) == (413, ["jobs", 1, "argument"])


@pytest.mark.row(58)
async def test_an_argument_of_just_the_limit_is_kept(open_api: Api) -> None:
    argument = b"x" * (256 * 1024 - 5)
    status, answer = await send(open_api, msgpack.packb({"name": "work", "argument": argument}))
    assert status == 201
    assert (await open_api.job(answer["id"]))["argument_bytes"] == 256 * 1024


@pytest.mark.row(59)
async def test_a_body_over_the_limit_is_refused(api: Api) -> None:
    body = b"\x00" * (16 * MIB + 1)
    status, problem = await send(api, body)
    assert (status, problem["code"]) == (413, "body_too_large")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield body[:MIB]

    try:
        response = await api.http.post("/api/jobs/bulk", content=chunks(), headers={"Content-Type": TYPE})
        assert response.status_code == 413
    except httpx.WriteError:
        pass  # the server may close the connection while the client goes on sending


async def test_a_refused_bulk_of_sixteen_megabytes_gives_its_memory_back(api: Api) -> None:
    jobs = [{"name": "work", "argument": b"x" * 60_000} for _ in range(250)] + [{"name": ""}]
    await refuses_within(api, msgpack.packb({"jobs": jobs}), 422, 90 * MIB, path="/api/jobs/bulk")


# --- paths


async def raw(master: Master, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", master.server.port)
    try:
        writer.write(request)
        async with asyncio.timeout(10):
            return await reader.read(65536)
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.row(15, 17)
@pytest.mark.parametrize(
    "path",
    [
        "/api/jobs/../workers", "//api/jobs", "/api//jobs", "/api/jobs/%2e%2e/workers", "/api/jobs%00",
        "/api/jobs/%c0%af", "/api/jobs/%2f",
        "/./api/jobs", "/API/jobs", "/api/jobs;x=1", "/api/jobs/..%2f..%2fetc%2fpasswd", "/api\\jobs", "/api/jobs/%",
    ],
)  # fmt: skip
async def test_a_twisted_path_is_like_any_unknown_one(shared: tuple[Master, Api], path: str) -> None:
    answer = await raw(
        shared[0], f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.split()[1] in (b"400", b"404"), answer
    assert b"passwd" not in answer.partition(b"\r\n\r\n")[2] or b"unknown_job" in answer


@pytest.mark.row(19)
async def test_head_and_options_have_no_body_and_tell_nothing(shared: tuple[Master, Api]) -> None:
    for method in ("HEAD", "OPTIONS"):
        answer = await raw(
            shared[0], f"{method} /api/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.split()[1] == b"405"
        assert b"allow: GET, POST" in head
        assert b"access-control" not in head.lower()
        if method == "HEAD":
            assert body == b""


@pytest.mark.row(22)
async def test_ranges_are_ignored(open_api: Api) -> None:
    ranges = "bytes=" + ",".join(f"{n}-{n}" for n in range(1_000))
    began = time.thread_time()
    response = await open_api.http.get("/openapi.json", headers={"Range": ranges})
    assert response.status_code == 200
    assert time.thread_time() - began < 0.5


# --- memory


async def refuses_within(
    api: Api, body: bytes, status: int, peak_bytes: int, *, path: str = "/api/jobs"
) -> None:
    """Expect a refusal with this status, and at most `peak_bytes` of new memory at once in client and master."""
    await send(api, b"\x80", path=path)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        answer = await send(api, body, path=path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer[0] == status, answer
    assert peak - before < peak_bytes


async def test_the_master_still_works_after_all_of_it(open_api: Api) -> None:
    job_id = await open_api.enqueue("work", {"id": new_id()})
    assert (await open_api.job(job_id))["state"] == "ready"
