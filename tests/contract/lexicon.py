"""The lexicon of this project: one word for one thing, and one thing for one word.

`SAY_INSTEAD` has words that texts do not use, each with the word to use. `HOMONYMS` has words that could name several
things, each with the one thing that it names. docs/glossary.md explains the words that users meet. Its second table has
the homonyms; `python -m tests.contract.lexicon` prints it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# By pattern: the word to use. Matched in all texts, without regard to case.
SAY_INSTEAD: Mapping[str, str] = {
    r"menders?": "repair",
    r"attendance": "failure detector",
    r"rule keepers?": "constraint keeper",
    r"poll desks?|(?:this|the other) desk": "the polls that this master holds",
    r"poison jobs?": "suspect",
    r"heeds?": "obeys, or takes into account",
    r"steering": "actions of operators",
    r"(?:who|which|that) vouch(?:es)?|vouches for": "sign, or confirm",
    r"writes? down who": "writes the audit entry",
    r"brings? (?:\w+ ){0,5}along|brought (?:\w+ ){0,3}along": "have, or hold in the record",
    r"what became of": "outcome",
    r"of late": "recently",
    r"puts? right|(?:put|puts) (?:\w+ ){1,4}right": "repair",
    r"edition of the rules": "edition of the constraints",
    r"(?:is|was|were|are) cut off for good": "detached",
    r"orders? (?:to|of) (?:the |a )?(?:workers?|older leaders?|masters)": "commands",
    r"(?:turns|fair) by weight|weights? of (?:its |the )?turns?|weighted turns": "shares of turns",
}


@dataclass(frozen=True, slots=True)
class Homonym:
    """A word that is part of names in code only where it names one thing. `places`: patterns of the files whose classes
    and modules may have one of its `forms` in their names. `besides`: other such names, each with the reason. `also`:
    other things that have the word in their full name, each with its meaning. A text about both uses the full name."""

    forms: tuple[str, ...]
    names: str
    places: tuple[str, ...]
    instead: str
    besides: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)


_PUBLISHED = "a schema of the API: clients are generated with this name"
HOMONYMS: tuple[Homonym, ...] = (
    Homonym(
        ("order", "orders"),
        "the order in which a list is sorted",
        (),
        "predecessor (a job for which another one waits), command (to a worker), wanted claim, wanted hold",
        dict.fromkeys(("CancelOrder", "DrainOrder", "ResumeOrder", "DetachOrder"), _PUBLISHED),
    ),
    Homonym(
        ("delivery", "deliveries", "delivered"),
        "a message to people, a webhook, or a request to an HTTP target",
        (r"/notices/", r"/targets/", r"outbound/carriers\.py$"),
        "offer (claims to a worker), report (results to a master)",
        dict.fromkeys(("Delivered", "NotDelivered", "MaybeDelivered"), "an outcome of a push: traces show the name"),
    ),
    Homonym(
        ("part", "parts"),
        "a partial result",
        (r"(?:^|/)parts?(?:_schemas)?\.py$",),
        "piece (of code, of an offer), service (of a shard)",
        {"PartNotKept": "the exception for a partial result"},
    ),
    Homonym(
        ("batch", "batches", "batcher", "batching"),
        "jobs that belong together",
        (
            r"/batches/",
            r"(?:^|/)batch(?:es)?(?:_\w+)?\.py$",
            r"jobs/enqueue(?:_outcomes)?\.py$",
            r"transfer/models\.py$",
        ),
        "coalescer, call, page",
        {"EventBatch": _PUBLISHED, "EventBatchAnswer": _PUBLISHED},
    ),
    Homonym(
        ("contract", "contracts"),
        "what a worker declares about a job name",
        (r"contracts?\.py$", r"api/operations/stats_schemas\.py$", r"api/workers/schemas\.py$"),
        "header (of a script), OpenAPI document",
    ),
    Homonym(
        ("seal", "seals", "sealed", "sealing"),
        "end-to-end encryption of what jobs hold: the pusher encrypts it, and only its workers decrypt it",
        (r"sealing\.py$", r"commands/seal\.py$", r"worker_sdk/errors\.py$"),
        "cipher, encryption (of a backup), digest",
    ),
    Homonym(
        ("gather", "gathers", "gathered", "gathering"),
        "one call of a function that runs many jobs",
        (r"worker_sdk/(?:worker|tasks)/",),
        "group (events for one job), collect",
    ),
    Homonym(
        ("step", "steps"),
        "a call that runs once in the life of a job",
        (
            r"domain/jobs/steps\.py$",
            r"worker/(?:kept_)?steps\.py$",
            r"api/jobs/schemas\.py$",
            # Applications import `Done` from it.
            r"worker_sdk/outbox/steps\.py$",
        ),
        "call, entry (of a plan), stage",
    ),
    Homonym(
        ("group", "groups", "grouping"),
        "events that start one job together",
        (r"/events/",),
        "set, page, or the name of what they have in common",
        {
            **dict.fromkeys(("FailureGroup", "WorkerGroup", "WorkerGroupList"), _PUBLISHED),
            "failure_group": "the filter of the API for failures of one kind",
            "StateGroup": "the filter `state_group` of the API",
            "GroupBy": "the field `group_by` of a notice",
            **dict.fromkeys(("GroupRoles", "group_roles"), "groups of users, as identity providers name them"),
            **dict.fromkeys(("CommandGroup", "GroupWithExamples", "groups"), "commands together, as Typer names them"),
            **dict.fromkeys(("group", "GroupResult"), "Celery's names"),
        },
        {
            "group of a flow": "jobs of a flow that do not wait for one another",
            "group of lanes": "lanes of jobs with the same name and the same unkeyed gates",
            "failure group": "failures with the same name, cause and place in the code",
            "worker group": "workers with the same machine, version or label",
            "group of users": "what the login provider calls so",
        },
    ),
    Homonym(
        ("event", "events"),
        "what a publisher sends to start jobs",
        (
            r"/events/",
            r"/events?\.py$",
            r"definitions/(?:event_\w+|schemas)\.py$",
            r"domain/matching/fields\.py$",
            r"encoding/fast_path\.py$",
            r"health/findings\.py$",
            r"link/wake\.py$",
        ),
        "entry (of a history), message",
        {
            "JobEvent": _PUBLISHED,
            **dict.fromkeys(("EventStream", "event_stream"), "server-sent events, as the standard names them"),
        },
    ),
    Homonym(
        ("weight", "weights", "weighted"),
        "how many units of a limit a job takes",
        (r"constraints/(?:weight|limit_kinds|schemas)\.py$", r"jobs/why_schemas\.py$"),
        "share (of turns), except in the field `fair.weights`",
    ),
    Homonym(
        ("mark", "marks"),
        "a change that charts show on their time axis",
        (r"operations/timeline(?:_schemas)?\.py$",),
        "icon (of a state), watermark (up to which something was checked), known state",
        also={"mark of the data": "the random text that shows whether the data of a shard were replaced"},
    ),
    Homonym(
        ("incident", "incidents"),
        "related events of one disturbance, as the timeline shows them",
        (r"operations/(?:timeline|incidents)(?:_\w+)?\.py$", r"commands/incidents\.py$"),
        "fault, outage; alert (in the web UI, of a notice)",
        {
            "IncidentView": _PUBLISHED,
            **dict.fromkeys(("NoticeIncident", "NoticeIncidentItem"), "an incident of a notice, by its full name"),
            "incident": "the module of the incidents of notices, in the room of notices",
        },
        {
            "incident of a notice": "findings of one condition that are reported together (UI: an open alert)",
            "incident number": "the number by which the log of a master has an internal error",
        },
    ),
    Homonym(
        ("look", "looks"),
        "one run of the script that reads which work of a shard is due",
        (r"duties/sha\w+_looks?\.py$", r"store/operations/looks\.py$"),
        "read, check, pass",
    ),
    Homonym(
        ("outbox",),
        "the table of jobs in an application's own database",
        (r"/outbox/", r"outbox\.py$", r"django/models\.py$"),
        "report queue (of a worker)",
    ),
)  # fmt: skip

# Lua locals may not have these names. Keys of the store keep theirs.
LUA_NAMES: Mapping[str, str] = {
    r"rules": "constraints, editions, facts",
    r"order_pushes|has_order": "predecessors",
}
_LUA_UNIQUENESS = ("unique_pushes.lua", "unique_requests.lua")


def homonym_table() -> list[str]:
    """Return the lines of the second table of docs/glossary.md."""
    rows = [
        f"| **{one.forms[0]}** | {one.names} | "
        f"{'; '.join(f'**{name}**: {meaning}' for name, meaning in one.also.items())} | {one.instead} |"
        for one in sorted(HOMONYMS, key=lambda one: one.forms[0])
    ]
    return [
        "| word | names | other things with a name of their own | say for other things |",
        "|---|---|---|---|",
        *rows,
    ]


def misplaced(name: str, path: str) -> str | None:
    """Return why a class or module of this path may not have this name; None: it may."""
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
    for homonym in HOMONYMS:
        if (
            not words.isdisjoint(homonym.forms)
            and name not in homonym.besides
            and not any(re.search(place, path) for place in homonym.places)
        ):
            return f"{path}: {name}: {homonym.forms[0]!r} names {homonym.names}; say {homonym.instead}"
    return None


def lua_faults(code: str, path: str) -> list[str]:
    """Return the names in the code of a script that the lexicon forbids."""
    if path.endswith(_LUA_UNIQUENESS):
        return []
    code = re.sub(r"--.*|'[^'\n]*'", "", code)
    return [
        f"{path}: {name}: say {instead}"
        for pattern, instead in LUA_NAMES.items()
        for name in re.findall(rf"(?<![\w.])(?:{pattern})\b(?!_key)", code)
    ]


if __name__ == "__main__":
    print("\n".join(homonym_table()))
