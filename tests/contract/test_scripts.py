"""The style rules of lua/*.lua, and byte compatibility between Lua and Python."""

import functools
import hashlib
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import jqmaster.store
from jqmaster.domain.jobs.job import Cause, JobState, RetryPolicy
from jqmaster.store import codec, layout
from jqmaster.store.jobs.operator_actions import Changes
from jqmaster.store.keys import KEYS
from jqmaster.store.link import script_source, scripts
from jqmaster.store.link.script_modules import ScriptHeaderError, with_modules
from jqmaster.store.link.script_source import OF_ARGUMENTS
from tests.support.each import for_each
from tests.support.lua_names import LuaNames, names_in
from tests.support.store import StoreWorld, unconstrained

STORE = Path(jqmaster.store.__file__).parent
LIB = STORE / "lua" / "lib"
NAMES = scripts.names()
LINE_LENGTH = 120


FILES = {file.stem: file for file in (STORE / "lua").rglob("*.lua")}


@functools.cache
def text_of(name: str) -> str:
    return FILES[name].read_text()


@functools.cache
def body_of(name: str) -> str:
    """Return the script without its header comments."""
    return "\n".join(line for line in text_of(name).splitlines() if not line.startswith("--"))


def naming_of(name: str) -> str:
    """Return the first code lines, which name KEYS and ARGV."""
    lines = body_of(name).splitlines()[1:]
    is_naming = re.compile(r"local |tag = ").match
    end = next((n for n, line in enumerate(lines) if not is_naming(line)), len(lines))
    return "\n".join(lines[:end])


@functools.cache
def names_of(name: str) -> LuaNames:
    """Return the names in a script with its modules."""
    return names_in(scripts.load(name).source.decode())


@for_each("name", NAMES)
def test_every_script_has_a_complete_header(name: str) -> None:
    script = scripts.load(name)
    first, rest = text_of(name).split("\n", 1)
    description = rest.split("\n-- KEYS", 1)[0]
    assert re.fullmatch(r"#!lua( flags=(allow-oom|no-writes))?", first)
    assert re.fullmatch(r"-- [A-Z](.|\n-- )*[.:)]", description)
    assert script.replies
    assert script.writes is ("no-writes" not in first)
    fields = scripts.read_header(text_of(name))
    known = {"string", "zset", "set", "list", "hash", "stream"}
    for key in re.sub(r"[\[\]+]", " ", fields["KEYS"]).split():
        assert key.split(":")[1] in known, key


@for_each("name", NAMES)
def test_no_line_of_a_header_explains_more_than_two_arguments(name: str) -> None:
    arguments = re.search(r"^-- ARGV.*(?:\n--  .*)*", text_of(name), re.MULTILINE)
    assert arguments
    assert [line for line in arguments[0].splitlines() if len(re.findall(r"\w\(", line)) > 2] == []


@for_each("name", NAMES)
def test_every_key_and_argument_is_named_once_and_used(name: str) -> None:
    script, body, naming = scripts.load(name), body_of(name), naming_of(name)
    for array, count in (("KEYS", len(script.keys)), ("ARGV", len(script.args))):
        indexes = sorted(int(n) for n in re.findall(rf"\b{array}\[(\d+)\]", body))
        source = script.source.decode()
        only_in_modules = {n for n in range(1, count + 1) if n not in indexes and f"{array}[{n}]" in source}
        indexes = sorted([*indexes, *only_in_modules])
        is_looped = re.search(rf"\b{array}\[[a-z]\w*\]", body) is not None
        whole = list(range(1, count + 1))
        # A loop handles the others, which follow or precede these.
        ends = (whole[: len(indexes)], whole[count - len(indexes) :]) if is_looped else (whole,)
        assert indexes in ends, f"{array} of {name}"
    rest = body.replace(naming, "", 1)
    raw = [r for r in re.findall(r"\b(?:KEYS|ARGV)\[([^\]]+)\]", rest) if r.isdigit()]
    assert raw == [], "a raw index after the naming lines"
    for names, values in re.findall(r"^local ([\w, ]+) = (.*(?:KEYS|ARGV)\[\d.*)$", naming, re.MULTILINE):
        assert values
        for local in names.split(", "):
            assert len(re.findall(rf"\b{local}\b", body)) > 1, f"{local} of {name} is never used"


@for_each("name", NAMES)
def test_groups_are_as_wide_as_the_header_says(name: str) -> None:
    script, body = scripts.load(name), body_of(name)
    first = re.search(r"local FIRST(?:, WIDTH)? = (\d+)(?:, (\d+))?", body)
    if first is None:
        assert script.group == 0 or f"for i = {len(script.args) + 1}, #ARGV" in body
        return
    assert int(first[1]) == len(script.args) + 1
    assert int(first[2] or 1) == script.group or name == "register_worker"


@for_each("name", NAMES)
def test_the_words_answered_are_those_of_the_header(name: str) -> None:
    assert set(re.findall(r"return \{'(\w+)'", body_of(name))) == scripts.load(name).replies


@for_each("name", NAMES)
def test_every_key_is_one_of_the_table(name: str) -> None:
    """Keys come from KEYS or are built from the tag or a prefix in ARGV. Scripts do not spell them out."""
    known = {info.pattern.split(":")[0] for info in KEYS}
    assert not re.findall(r"redis\.p?call\('\w+', '", body_of(name))
    for prefix in re.findall(r"\b(\w+)_prefix\b", body_of(name)):
        assert prefix in known, prefix
    for built in re.findall(r"\btag \.\. '(\w+)", scripts.load(name).source.decode()):
        assert built in known, built


def test_every_script_is_used_by_the_store() -> None:
    sources = "".join(p.read_text() for p in STORE.rglob("*.py"))
    assert [name for name in NAMES if f'"{name}"' not in sources] == []


def test_the_store_finds_each_file_and_each_value_of_the_layout() -> None:
    """Both are read once per process, when a module of tests asks for the names of the scripts."""
    assert vars(scripts._files)["__wrapped__"]().keys() == FILES.keys() - {
        file.stem for file in LIB.rglob("*.lua")
    }
    assert vars(script_source.layout)["__wrapped__"]() == script_source.layout()


def test_every_helper_is_included_somewhere() -> None:
    everything = "".join(file.read_text() for file in (STORE / "lua").rglob("*.lua"))
    for helper in LIB.rglob("*.lua"):
        assert (
            helper.stem == "layout" or f"-- include lib/{helper.relative_to(LIB).as_posix()}\n" in everything
        )


LUA_FILES = sorted((STORE / "lua").rglob("*.lua"))
# Each is a table with its own name.
MODULES = {
    file.stem
    for file in LIB.rglob("*.lua")
    if re.search(rf"^local {file.stem} = (lazily\.made_by)?\(function\(\)$", file.read_text(), re.MULTILINE)
}


# The names of Lua 5.1 itself, and those that the store provides.
LUA_GLOBALS = {
    "getmetatable",
    "ipairs",
    "math",
    "next",
    "pairs",
    "pcall",
    "rawget",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
}
STORE_GLOBALS = {"ARGV", "KEYS", "cmsgpack", "redis", "struct"}
# Lua allows 200 locals and 60 upvalues in one function. A script near these limits can no longer be changed.
MAX_LOCALS, MAX_UPVALUES = 90, 45


@for_each("file", sorted(LIB.rglob("*.lua")), ids=lambda f: f.stem)
def test_a_module_shows_nothing_but_its_table(file: Path) -> None:
    assert names_in(file.read_text()).locals == [file.stem]


@for_each("name", NAMES)
def test_every_name_that_a_script_uses_is_its_own_or_given(name: str) -> None:
    assert names_of(name).globals <= LUA_GLOBALS | STORE_GLOBALS


@for_each("name", NAMES)
def test_no_script_comes_near_the_limits_of_lua(name: str) -> None:
    found = names_of(name)
    assert len(found.locals) <= MAX_LOCALS
    assert found.most_upvalues <= MAX_UPVALUES


@for_each("name", NAMES)
def test_nothing_hides_a_module(name: str) -> None:
    found = names_of(name)
    included = MODULES & set(found.locals)
    assert all(found.locals.count(module) == 1 for module in included)
    assert found.inner & included == set()


@for_each("file", LUA_FILES, ids=lambda f: f.stem)
def test_every_file_includes_the_modules_that_it_names(file: Path) -> None:
    """Do not rely on another module's includes, which are its own business."""
    code = re.sub(r"--.*|'[^'\n]*'", "", file.read_text())
    named = {name for name in re.findall(r"(?<![\w.])(\w+)\.\w+", code) if name in MODULES} - {file.stem}
    included = set(re.findall(r"^-- include lib/(?:\w+/)*(\w+)\.lua$", file.read_text(), re.MULTILINE))
    assert included & MODULES == named


@for_each(
    "broken",
    [
        lambda t: t.replace("#!lua", "--", 1), lambda t: t.replace("-- KEYS", "-- KEYZ", 1),
        lambda t: t.replace("-- ARGV", "-- ARGS", 1), lambda t: t.replace("-- REPLY", "-- ANSWER", 1),
        lambda t: t.replace("-- CHECKS FIRST", "-- CHECKS", 1), lambda t: "#!lua\n" + t,
    ],
)  # fmt: skip
def test_a_header_that_lacks_something_is_refused(broken: object) -> None:
    with pytest.raises(ScriptHeaderError):
        scripts.parse("elect", broken(text_of("elect")))  # type: ignore[operator]


def test_a_module_that_needs_an_argument_which_the_script_lacks_is_refused() -> None:
    needed = next(text for text in map(text_of, scripts.names()) if OF_ARGUMENTS.search(with_modules(text)))
    name = OF_ARGUMENTS.search(with_modules(needed))
    assert name
    lacking = re.sub(rf"\b{name[1]}\b", "other", needed)
    with pytest.raises(ScriptHeaderError, match=f"needs the argument {name[1]}"):
        scripts.parse("one", lacking)


def tables_in(code: str) -> dict[str, set[str]]:
    """Return the names in the table of each module. One module may stand inside another."""
    opening = r"^local (\w+)(?:\ndo| = setmetatable\(\{function\(\))$"
    found: dict[str, set[str]] = {}
    open_modules: list[str] = []
    for name, table, _ in re.findall(
        rf"{opening}|^  (?:return|\w+ =) \{{([^{{}}]*)\}}$|^(end)(?:\}}.*)?$", code, re.M
    ):
        if name:
            open_modules.append(name)
        elif table and open_modules:
            found[open_modules[-1]] = set(re.findall(r"(\w+) = ", table))
        elif open_modules and not table:
            open_modules.pop()
    return found


@for_each("name", NAMES)
def test_a_script_has_all_that_it_reads_of_modules_and_no_function_besides(name: str) -> None:
    source = scripts.load(name).source.decode()
    code = re.sub(r"^ *--.*|'[^'\n]*'", "", source, flags=re.MULTILINE)
    shown = tables_in(code)
    read: dict[str, set[str]] = {module: set() for module in shown}
    for module, field in re.findall(r"(?<![\w.])(\w+)\.(\w+)", code):
        if module in read:
            read[module].add(field)
    assert shown == read, "a module has an entry that nobody reads, or lacks one"
    words = Counter(re.findall(r"\w+", code))
    for function in re.findall(r"^  local function (\w+)", code, re.MULTILINE):
        assert words[function] > 1, f"{function} cannot be reached"


@for_each("file", LUA_FILES, ids=lambda f: f.stem)
def test_a_module_is_no_value(file: Path) -> None:
    """Only a module's fields may be read. Otherwise, the functions that a script needs would be unknown."""
    included = re.findall(r"^-- include lib/(?:\w+/)*(\w+)\.lua$", file.read_text(), re.MULTILINE)
    code = re.sub(r"--.*|'[^'\n]*'|is_made\(\w+\)", "", file.read_text())
    for module in included:
        assert not re.search(rf"(?<![\w.]){module}\b(?!\.| =[^=])", code), module


@pytest.mark.req("D20")
@for_each("name", NAMES)
def test_on_a_cluster_a_script_publishes_to_all_nodes_or_to_one_and_nothing_else_differs(name: str) -> None:
    script = scripts.load(name)
    to_all, to_one = (script.text(is_guarded=True, is_sharded=one) for one in (False, True))
    assert b"SPUBLISH" not in to_all
    assert not re.search(rb"\bPUBLISH", to_one)
    assert to_one.replace(b"'SPUBLISH'", b"'PUBLISH'") == to_all
    keys, args = [""] * len(script.keys), [""] * len(script.args)
    digests = {script.command(keys, args, "guard", is_sharded=one)[1] for one in (False, True)}
    assert digests == {hashlib.sha1(text, usedforsecurity=False).hexdigest() for text in (to_all, to_one)}
    # Elsewhere there is one node.
    assert script.text(is_guarded=False, is_sharded=True) == script.source


def test_functions_that_a_script_cannot_reach_are_left_out() -> None:
    source = with_modules(
        "#!lua\n-- include lib/lists.lua\n-- include lib/clock.lua\nlists.add_pair({}, 1, 2)\n"
    )
    assert "local function add_pair" in source
    assert "local function zadd" not in source
    assert "local clock" not in source


def test_a_module_that_is_made_on_first_use_costs_a_call_an_empty_table() -> None:
    source = scripts.load("settle_success").source.decode()
    makes = re.search(r"^function lazily\.ON_FIRST_USE\.__index.*?^end$", source, re.MULTILINE | re.DOTALL)
    assert makes
    at_once = source.replace(makes[0], "")
    for module, function in (("followed", "is_followed"), ("batches", "tell_parent")):
        assert f"\n{module} = setmetatable({{}}, lazily.ON_FIRST_USE)\n" in at_once
        assert f"local function {function}(" in makes[0]
        assert f"local function {function}(" not in at_once


def test_a_script_may_ask_for_a_module_without_using_it() -> None:
    source = with_modules(
        "#!lua\n-- include lib/lazily.lua\n-- include lib/jobs/mail.lua\nreturn lazily.is_made(mail)\n"
    )
    assert "mail" in names_in(source).locals


def test_a_file_that_is_not_one_module_is_refused() -> None:
    with pytest.raises(ScriptHeaderError, match="not one module"):
        with_modules("#!lua\n-- include lib/layout.lua\n")


def test_the_layout_for_lua_is_generated() -> None:
    assert layout.FILE.read_text() == layout.layout_file(), "run: make docs"
    assert codec.HEAD.unpack(bytes(codec.HEAD_SIZE))
    assert len(codec.HEAD_FIELDS) == len(codec.HEAD.unpack(bytes(codec.HEAD_SIZE)))


def test_names_of_the_layout_become_its_values() -> None:
    text = text_of("elect") + "\nreturn layout.token.at + layout.STATE.running, layout.is_final, layout.NO_ID"
    source = scripts.parse("elect", text).source.decode()
    assert source.endswith(
        rf"return 57 + 4, {{[6] = true, [7] = true, [8] = true, [9] = true, [10] = true}}, '{chr(92) + '0'}"
        + r"\0" * 15
        + "'"
    )
    with pytest.raises(ScriptHeaderError, match=r"token\.end"):
        scripts.parse("elect", text_of("elect") + "\nreturn layout.token.end")


# Record positions, and numbers of states, causes and flags, written as literals instead of names.
_OF_A_RECORD = r"(?:head|its_head|whole|record|job|holder|progress|terms|s)"
RAW_LAYOUT = re.compile(
    rf"\b(?:sub|byte)\({_OF_A_RECORD}, [^()]*\b(?:[2-9]|\d\d+)\b"
    rf"|\bint64\(\w+, [^()]*\b\d"
    rf"|unpack\w*\('[^']*', {_OF_A_RECORD}, [^()]*\b\d"
    r"|'(?:SET|GET)RANGE', [^,]+, (?:[^,]*[ (])?[1-9]"
    r"|'SETRANGE', [^,]+, 0"
    r"|\bbeginning\([^()]*, \d"
    r"|\bstring\.char\((?:[^()]*, )?\d"
    r"|\b(?:state|target|cause)\b (?:[=~]=|[<>]=?) \d"
    r"|\bflags\b [%/] \d"
    r"|\bhas_flag\([^,]*, \d"
    r"|\blocal (?:\w+, )*E(?:TAG|DITION)_LENGTH\b"
)


@for_each("file", LUA_FILES, ids=lambda f: f.stem)
def test_no_line_is_longer_than_others_of_this_project(file: Path) -> None:
    assert file.stem == "layout" or max(map(len, file.read_text().splitlines())) <= LINE_LENGTH


@for_each("file", LUA_FILES, ids=lambda f: f.stem)
def test_places_and_numbers_of_the_layout_are_named(file: Path) -> None:
    if file.stem != "layout":
        assert [found[0] for found in RAW_LAYOUT.finditer(file.read_text())] == []


@for_each(
    "bad",
    [
        "string.sub(head, 73, 88)", "sub(record, layout.token.at, 72)", "string.byte(head, 2)", "int64(head, 25)",
        "record.int64(holder, layout.token.at + 8)", "struct.unpack('>i4', head, 89)",
        "struct_unpack('>i8', record, 97)",
        "redis.call('SETRANGE', key, 32, struct.pack('>i8', now_ms))", "redis.pcall('GETRANGE', keys[i], 120, 127)",
        "redis.call('SETRANGE', key, 0, string.char(3))", "record.beginning(key, 88)",
        "string.char(layout.STATE.skipped, flags, 4)",
        "string.char(5)", "if state == 4 then", "state <= 4", "if flags % 2 == 1 then", "record.has_flag(flags, 4)",
        "local ETAG_LENGTH, CHUNK = 16, 1000",
    ],
)  # fmt: skip
def test_the_check_of_the_layout_finds(bad: str) -> None:
    assert RAW_LAYOUT.search(bad)


async def test_lua_reads_and_writes_each_field_where_python_does(world: StoreWorld) -> None:
    """Python gives each field of the head its own value, a script patches it, and Python reads it back."""
    spec = world.spec("n" * 200, 1, tags=("t",), headers={"h": "v"}, retry=RetryPolicy(9, 8, 7, False))
    await world.acceptance.enqueue([spec])
    key = world.shard.keys.job(spec.id)
    record = await world.redis.get(key)
    fields = [
        codec.VERSION,
        4,
        1 | 2 | 8,
        3,
        11,
        12,
        1,
        14,
        15,
        16,
        17,
        18,
        19,
        b"t" * 16,
        b"w" * 16,
        -20,
        21,
        22,
        23,
        24,
        b"d" * 8,
        unconstrained(spec.name).id,
    ]
    head = codec.HEAD.pack(*fields)
    await world.redis.set(key, head + record[codec.HEAD_SIZE :])
    before = await world.get(spec.id)
    assert (before.priority, before.created_at_ms, before.expires_at_ms, before.losses) == (-20, 23, 24, 1)

    k = world.shard.keys
    await world.redis.zadd(k.running, {spec.id: world.now_ms + 1})
    await world.redis.zrem(world.ready(spec.name), spec.id)
    await world.redis.hdel(k.ready_counts, spec.name)
    await world.redis.sadd(k.claims(before.worker_id), spec.id)
    await world.worker(worker_id=before.worker_id)
    assert await world.settlements.confirm_start(before.worker_id, [(spec.id, before.token)]) == [True]
    assert await world.get(spec.id) == replace(before, is_confirmed=True)
    worker = await world.worker()
    await world.operator_actions.cancel(before.id)
    await world.operator_actions.retry(await world.get(spec.id))
    await world.operator_actions.patch(await world.get(spec.id), Changes(-30, world.now_ms + 5, 31, 32))
    expected = replace(
        before, state=JobState.SCHEDULED, cause=Cause.NONE, is_confirmed=True, priority=-30, max_retry=31,
        timeout_ms=32, failures=0, losses=0, returned_offers=0, due_at_ms=world.now_ms + 5, started_at_ms=0,
        finished_at_ms=0, expires_at_ms=0, token="",
    )  # fmt: skip
    assert await world.get(spec.id) == expected
    await world.operator_actions.run_now(spec.id)
    (claimed,) = await world.claim(worker, spec.name)
    assert await world.get(spec.id) == replace(
        expected, state=JobState.RUNNING, is_confirmed=False, attempt=12, due_at_ms=0, started_at_ms=world.now_ms,
        not_after_ms=world.now_ms + 5_000, fence=claimed.fence, token=claimed.token, worker_id=worker,
    )  # fmt: skip
    record = await world.redis.get(key)
    assert record[120:128] == b"d" * 8
    assert record[128:136] == unconstrained(spec.name).id
    assert record[2] & codec.FLAG_WATCHED


def test_calls_are_held_against_the_header() -> None:
    script = scripts.load("settle_success")
    assert script.command(["k"] * 5, ["a"] * 10, None, is_sharded=False) == (
        "EVALSHA", script.sha, 5, *["k"] * 5, *["a"] * 10,
    )  # fmt: skip
    for keys, args in ((4, 7), (5, 6), (5, 8)):
        with pytest.raises(ScriptHeaderError):
            script.command([""] * keys, [""] * args, None, is_sharded=False)
    # The keys of two more workers.
    assert script.command(["k"] * 9, ["a"] * 7, None, is_sharded=False)[2] == 9
    claim = scripts.load("claim_alone")
    # On a Cluster, the guard is the last key.
    guarded = claim.command(["k"] * 9, ["a"] * len(claim.args), "g", is_sharded=True)
    assert guarded[2:] == (10, *["k"] * 9, "g", *["a"] * len(claim.args))
    for keys in (8, 10):
        with pytest.raises(ScriptHeaderError):
            claim.command([""] * keys, [""] * len(claim.args), None, is_sharded=False)


def test_the_names_of_a_script_are_counted_as_lua_does() -> None:
    found = names_in("""\
local a, b = 1, function(x, ...) return a, x, given.a end  -- this a is not the local one yet
local function f(y) local z = {k = y, b, 'end'} for i, v in pairs(z) do local q = i .. v end return b end
while f(a) do if a then local c = 1 elseif b then local d = 2 else local e = 3 end end
return function() return function() return a, b, q end end
""")
    assert found.locals == ["a", "b", "f"]
    assert found.globals == {"a", "given", "pairs", "q"}
    # y, z, i, v and q: the innermost function has two upvalues, and so has the one around it.
    assert (found.most_locals, found.most_upvalues) == (5, 2)
