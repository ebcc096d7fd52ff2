"""The table of all keys: name, type, and lifetime. docs/redis_keys.md explains each key, and a test compares both.

All keys of a shard carry its hash tag, so that one script may touch them on a cluster.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from jqmaster.domain.jobs.job import FINISHED, STATES, JobState

Built = TypeVar("Built")


class KeyInfo(ABC, Generic[Built]):
    """One row of the table: a single key, or many keys that end with a name or a number.

    The class `Keys` declares each row as an attribute. In an instance of `Keys`, the attribute is the result of
    `build`.

    * `lives`: the lifetime of the key, such as "always", "with its job", "while not empty" or "expires".
    * `of`: the names of the parts that complete the key.
    * `stem`: the beginning of the key; by default the name of the row.
    """

    def __init__(
        self, kind: str, lives: str, holds: str, *, of: tuple[str, ...] = (), stem: str = ""
    ) -> None:
        self.type = kind
        self.lives = lives
        self.holds = holds
        self.of = of
        self.stem = stem

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.stem = self.stem or name

    @property
    def pattern(self) -> str:
        return ":".join([self.stem, *(f"{{{part}}}" for part in self.of)])

    @abstractmethod
    def build(self, tag: str) -> Built:
        """Return the key with this hash tag, or a function that completes the key."""

    if TYPE_CHECKING:

        def __get__(self, keys: "Keys", owner: type["Keys"]) -> Built: ...


class Key(KeyInfo[str]):
    def build(self, tag: str) -> str:
        return tag + self.stem


class NamedKey(KeyInfo[Callable[[str], str]]):
    def build(self, tag: str) -> Callable[[str], str]:
        return f"{tag}{self.stem}:".__add__


class NumberedKey(KeyInfo[Callable[[int], str]]):
    def build(self, tag: str) -> Callable[[int], str]:
        prefix = f"{tag}{self.stem}:"
        return lambda number: f"{prefix}{number}"


class PairKey(KeyInfo[Callable[[str, str], str]]):
    def build(self, tag: str) -> Callable[[str, str], str]:
        prefix = f"{tag}{self.stem}:"
        return lambda first, second: f"{prefix}{first}:{second}"


class Keys:
    """The keys of one shard. The rows have the order of docs/redis_keys.md."""

    job = NamedKey(
        "string",
        "with its job",
        "the job's record: fixed head, name, retry/tags/headers, argument (store/codec.py)",
        of=("job_id",),
    )
    history = NamedKey(
        "list",
        "with its job",
        "the job's ended attempts, except the successful one; the last 100",
        of=("job_id",),
    )
    progress = NamedKey(
        "hash",
        "with its job",
        "the last report of the job's worker: `fraction`, `message`, `at_ms`; `checkpoint`, for the next attempt; "
        "`token` and `seq`: the claim that sent the report, and the report's number",
        of=("job_id",),
    )
    parts = NamedKey(
        "stream",
        "expires",
        "partial results of the newest attempt that had any; the ID is `attempt-number`. Each has the claim, its "
        "number within the claim, and the total bytes so far",
        of=("job_id",),
    )
    logs = NamedKey(
        "stream",
        "with its job, or until its retention",
        "log lines of the job in chunks; the ID is the number of the last line. Each has the attempt, the number "
        "and size of its lines, and the number before the first line of the claim (lua/lib/logs/job_logs.lua)",
        of=("job_id",),
    )
    log = NamedKey(
        "hash",
        "with its job; without it while it waits for the archive",
        "facts about the job's log: its last line, the number of missing lines, its size, the claim that wrote "
        "last, and its place in the archive; for a deleted job, also its record",
        of=("job_id",),
    )
    logged = Key("set", "while not empty", "jobs that have a log")
    log_times = Key(
        "sorted set",
        "while not empty",
        "jobs with log lines in the store; score: when the newest line came, ms",
    )
    log_waits = Key(
        "sorted set",
        "while not empty",
        "deleted jobs whose log waits to be archived; score: since when, ms",
    )
    log_erasures = Key(
        "sorted set",
        "while not empty",
        "jobs whose log is to be removed from the archive, because the job was deleted or its log was erased; "
        "score: when that happened, ms",
    )
    log_erased = Key(
        "sorted set",
        "while not empty",
        "jobs whose log was removed from the archive; the archive is checked once more an hour later; score: "
        "when the job was deleted or its log was erased, ms",
    )
    log_totals = Key("hash", "always", "`size` of all logs together")
    challenges = NamedKey(
        "string",
        "with its job",
        "the job's challenges, as MessagePack: digests of their request IDs, times, callbacks that wait for a "
        "worker, forms and answers of people (lua/lib/challenges/challenges.lua)",
        of=("job_id",),
    )
    challenged = Key(
        "sorted set", "while not empty", "jobs that opened challenges; score: when the newest was opened, ms"
    )
    callbacks = NamedKey(
        "sorted set",
        "while not empty",
        "jobs of this name whose callbacks have arrived, and that wait for a worker; score: the time from which a "
        "worker may run them, ms. Deliveries to targets have a separate list, whose name ends with a tab",
        of=("name",),
    )
    awaits = NamedKey(
        "hash",
        "with its job",
        "predecessors for which the job waits, until they succeed (1) or end (2); `root` of a skipped job: "
        "the predecessor that caused the skip, and its state",
        of=("job_id",),
    )
    dependents = NamedKey(
        "sorted set",
        "with its job, and until its dependents know of its end",
        "jobs that wait, or waited, for the job; score: the state of the dependent at the last check: "
        "unfinished (1), over but may run again (0.5), or over (0)",
        of=("job_id",),
    )
    awaited = Key("set", "while not empty", "jobs that have dependents")
    result = NamedKey(
        "string",
        "until its time in `results`",
        "the result of a `keep_result` job, as the worker sent it",
        of=("job_id",),
    )
    ready = NamedKey(
        "sorted set",
        "while not empty",
        "ready jobs of a lane; score: priority; within a priority, the oldest ID first",
        of=("lane",),
    )
    names = Key("set", "while not empty", "names that have lanes")
    ready_counts = Key("hash", "while not empty", "by name: how many jobs are ready")
    lane = NamedKey(
        "string",
        "with its jobs",
        "name, edition of the constraints, group, gates, number of unfinished jobs, and position in `open` or "
        "`parked`",
        of=("lane",),
    )
    lanes = NamedKey(
        "sorted set", "while not empty", "lanes of a name; score: edition of the constraints", of=("name",)
    )
    open_groups = NamedKey(
        "set", "while not empty", "groups of lanes whose shared gates are all open", of=("name",)
    )
    open_lanes = NamedKey(
        "sorted set",
        "while not empty",
        "open lanes of a group; score: priority of the first job; member: its ID, then the lane",
        of=("group",),
        stem="open",
    )
    parked = PairKey(
        "sorted set",
        "while not empty",
        "lanes that are parked at this closed gate, ordered as in `open`",
        of=("gate", "group"),
    )
    waiters = NamedKey(
        "set",
        "while not empty",
        "groups and lanes that wait at this closed gate: `G` + group + name, or `L` + group + name for parked "
        "lanes",
        of=("gate",),
    )
    rules = Key(
        "hash",
        "always",
        "version and edition of the constraints, the edition in force, a copy of the mark of the data for pushes, "
        "and the names that have jobs in `callbacks`",
    )
    constraints = Key("hash", "while not empty", "by name: ETag, then the constraint as MessagePack")
    limits = NamedKey(
        "hash", "with its constraint", "the fields of a constraint that scripts need", of=("cid",)
    )
    overrides = NamedKey(
        "hash",
        "with its constraint",
        "by gate, or by ID of a conditional override: `concurrency,rate,period_ms,is_paused`; by `weight:` + gate: its "
        "share of turns",
        of=("cid",),
    )
    conditions = NamedKey(
        "hash",
        "while not empty",
        "by gate: the ID of the conditional override that applies to its jobs",
        of=("cid",),
    )
    gates = NamedKey(
        "hash",
        "while not empty",
        "by gate: how many jobs wait behind it, and the text of its key value",
        of=("cid",),
    )
    crowded = NamedKey(
        "sorted set",
        "while not empty",
        "gates behind which two or more jobs wait; score: the logarithm of their number",
        of=("cid",),
    )
    served = NamedKey(
        "hash",
        "with its constraint",
        "by gate of a fair constraint: when it was last served, or its next turn by share; `clock`: the virtual clock "
        "of turns by share",
        of=("cid",),
    )
    served_stamp = Key("string", "always", "the newest instant in any `served` hash")
    slots = NamedKey(
        "hash",
        "while not empty",
        "running jobs that hold a slot at this keyed gate, or at all unkeyed gates of this list, each with "
        "its token",
        of=("gates",),
    )
    slot_counts = Key("hash", "while not empty", "by unkeyed gate: how many slots are in use there")
    handed_over = NamedKey(
        "set",
        "while not empty",
        "jobs that hold a slot at this gate and were handed over to another system",
        of=("gate",),
    )
    handed_over_gates = Key("set", "while not empty", "gates that have an entry in `handed_over`")
    slot_lists = Key("set", "while not empty", "lists of unkeyed gates under which slots are stored")
    starts = NamedKey(
        "sorted set",
        "expires",
        "tokens of the claims that the gate remembers, with their charges if the gate has a weight; score: when "
        "they were claimed, or when they called another system, ms",
        of=("gate",),
    )
    charges = NamedKey(
        "hash",
        "while not empty",
        "running jobs with a charge at this gate: the token of the claim, and the charge in thousandths of the "
        "unit",
        of=("gate",),
    )
    charge_sums = Key("hash", "while not empty", "by gate: the sum of its charges, thousandths")
    handed_over_charges = Key(
        "hash",
        "while not empty",
        "by gate: the part of its sum in `charge_sums` that belongs to jobs handed over to another system",
    )
    started = NamedKey(
        "string",
        "expires",
        "the sum of the charges in `starts`, for a gate with a weight, thousandths",
        of=("gate",),
    )
    needed = NamedKey(
        "string",
        "expires",
        "the first job that waits for room at the gate: the room that it needs in thousandths, its priority, when "
        "a claim last asked for it, since when there is enough room (0: there is not), its ID, and its place in "
        "the order of claims",
        of=("gate",),
    )
    observed = Key(
        "hash",
        "while not empty",
        "by gate: how much another system still admits (thousandths), until when, since when starts are "
        "subtracted, and when it was observed (ms)",
    )
    closed = Key("set", "while not empty", "gates at which lanes or groups are parked")
    counted = Key("set", "while not empty", "constraints that may have data about gates")
    gates_due = Key(
        "sorted set",
        "while not empty",
        "gates with a scheduled check, such as those that open by themselves; score: when, ms",
    )
    holds = Key("hash", "while not empty", "by gate: until when a worker asked to keep it closed, ms")
    reopened = Key(
        "sorted set",
        "while not empty",
        "constraints whose gates have to be checked, because they may let more jobs start than before; score: the "
        "version of the change",
    )
    shadowed = Key("hash", "while not empty", "by shadow constraint: starts that it would have delayed")
    definitions = Key("hash", "while not empty", "by name: ETag, then the definition as MessagePack")
    definitions_due = Key(
        "sorted set", "while not empty", "definitions with future instants; score: when to check them, ms"
    )
    definitions_due_on_days = Key(
        "sorted set",
        "while not empty",
        "definitions with future instants that use a calendar; score: when to check them, ms. They are "
        "separate, because a leader of an earlier release cannot read them and would find them due for ever",
    )
    definition_clocks = Key(
        "hash",
        "with its definition",
        "by name: the last instant with a record, the newest job, and the instant that waits for the end of "
        "this job; with a calendar also the ETag of the calendar that these instants followed, and the "
        "instants that an edit of the calendar moved across the last instant",
    )
    calendars = Key("hash", "while not empty", "by name: ETag, then the calendar as MessagePack")
    definition_calendars = Key(
        "hash", "while not empty", "by definition that uses a calendar: the name of the calendar"
    )
    forgotten_runs = Key(
        "hash",
        "while not empty",
        "by name of a definition with a schedule: its incarnation, the last instant whose run record may have "
        "been removed, and the first instant that has a run record. The entry with the empty name has the "
        "last instant of the definitions that are no longer in `gone_definitions`",
    )
    gone_definitions = Key(
        "sorted set",
        "while not empty",
        "names of removed definitions; score: the last instant at which the definition may have started a "
        "job, ms",
    )
    runs = NamedKey(
        "sorted set",
        "with its definition",
        "run records: `due_at_ms outcome reason job_id recorded_at_ms`, then the ID of the event if an event "
        "started it, or `moved:` and the original instant if a calendar moved it; score: due, ms",
        of=("definition",),
    )
    event_definitions = Key("set", "while not empty", "definitions that events start")
    event_edition = Key("string", "always", "a random text, new with each change of such a definition")
    events = Key("sorted set", "while not empty", "IDs of the newest events; score: received, ms")
    event_bodies = Key(
        "hash",
        "while not empty",
        "by ID: when the event was received, what it started, and the event, as MessagePack",
    )
    event_key = NamedKey(
        "string",
        "expires",
        "the first event with this key: its ID, and what it started",
        of=("digest",),
    )
    event_groups = Key(
        "sorted set",
        "while not empty",
        "groups of events that wait to become one job, by the ID of the job; score: due, ms",
    )
    event_group = NamedKey(
        "hash",
        "while it waits",
        "a group: `definition`, `did`, `slot`, `since`, `bytes`, and by number its events with their arguments",
        of=("job_id",),
    )
    event_slots = Key(
        "hash",
        "while not empty",
        "by incarnation of a definition, and key: the group that takes further events",
    )
    declarations = Key(
        "hash",
        "while not empty",
        "by source: the constraints, calendars and definitions of its last declaration, with their ETags",
    )
    fireworq_queues = Key(
        "hash",
        "while not empty",
        "by name: a queue of the Fireworq gateway, as its clients defined it, as MessagePack",
    )
    fireworq_routings = Key(
        "hash", "while not empty", "by category of jobs: the queue of the Fireworq gateway that gets them"
    )
    notices = Key("hash", "while not empty", "by name: ETag, then the notice as MessagePack")
    notice_states = Key(
        "hash",
        "with its notice",
        "by name: edition, then the incidents and messages of a notice as MessagePack. `:marks` has the time up "
        "to which conditions were checked, and `:default` belongs to the notice that exists while there is no "
        "other",
    )
    follow_ups = Key(
        "sorted set",
        "while not empty",
        "work that changes of jobs cause, as `kind:subject`; score: the number of the entry",
    )
    targets = Key("hash", "while not empty", "by name: ETag, then the target as MessagePack")
    target_figures = PairKey(
        "string",
        "expires",
        "one master's figures of the requests to a target, as MessagePack; kept 5 min",
        of=("target", "master_id"),
    )
    batches = Key("sorted set", "while not empty", "batches; score: created, ms")
    batches_due = Key(
        "sorted set", "while not empty", "batches that will expire or be removed; score: when, ms"
    )
    batch = NamedKey(
        "hash",
        "with its batch",
        "a batch: `spec` (description, tags, callbacks), `state`, counts of its members, `parent` and the outcome "
        "that the parent counts, the state of each callback, times, and `filled_by` (the call that fills it) "
        "until it is sealed",
        of=("batch_id",),
    )
    batch_members = NamedKey(
        "sorted set", "with its batch", "jobs of a batch, ordered by their IDs; score: 0", of=("batch_id",)
    )
    batch_children = NamedKey("set", "with its batch", "batches that are members of it", of=("batch_id",))
    actions = Key("sorted set", "while not empty", "stored actions on many jobs; score: begun, ms")
    running_actions = Key("set", "while not empty", "actions on many jobs that are under way")
    action = NamedKey(
        "hash",
        "expires",
        "the request (`spec`, `ids`, `at_most`), the progress (`progress`; `done`, counted with each job), and "
        "`canceled_by` after a request to cancel it",
        of=("action_id",),
    )
    watched = NamedKey(
        "set",
        "with its action",
        "retried jobs that the action waits for until they end, because too many failures stop the action",
        of=("action_id",),
    )
    audit = Key("stream", "the newest", "who changed what, except for the changes in `access`")
    audit_export = Key("hash", "while not empty", "by log: position and number of the newest exported entry")
    access = Key(
        "stream",
        "the newest",
        "the access log: logins, refused logins, sessions, tokens, users, and settings of access",
    )
    access_folds = Key(
        "hash",
        "while not empty",
        "repeats of access events within an hour, by group and kind: first time, last time, count, and the newest "
        "entry",
    )
    scheduled = Key("sorted set", "while not empty", "jobs that wait for their start time; score: due, ms")
    retrying = Key("sorted set", "while not empty", "failed jobs that wait for their retry; score: due, ms")
    suspects = Key(
        "set",
        "while not empty",
        "retrying jobs whose workers were lost, and that wait to run alone on a worker",
    )
    awaiting_jobs = Key(
        "sorted set", "while not empty", "jobs that wait for predecessors; score: created, ms"
    )
    expiring = Key("sorted set", "while not empty", "waiting jobs with expires_at; score: that instant, ms")
    running = Key(
        "sorted set", "while not empty", "claimed jobs; score: the earlier of lease end and deadline, ms"
    )
    awaiting_callback = Key(
        "sorted set",
        "while not empty",
        "jobs that await the callbacks of another system or person; score: the deadline of the callbacks, ms",
    )
    reminders = Key(
        "sorted set",
        "while not empty",
        "jobs whose challenge people have not answered; score: when to remind people, ms",
    )
    succeeded = Key("sorted set", "while not empty", "succeeded jobs; score: finished, ms")
    discarded = Key(
        "sorted set", "while not empty", "jobs that their handlers discarded; score: finished, ms"
    )
    failed = Key("sorted set", "while not empty", "failed jobs; score: finished, ms")
    canceled = Key("sorted set", "while not empty", "canceled jobs; score: finished, ms")
    skipped = Key(
        "sorted set",
        "while not empty",
        "jobs whose expires_at passed while they waited, or whose predecessors did not succeed; score: finished, ms",
    )
    results = Key("sorted set", "while not empty", "kept results; score: when each is removed, ms")
    damaged = Key("set", "while not empty", "IDs of jobs in an index whose records could not be read")
    workers = Key("sorted set", "while not empty", "registered workers; score: last heartbeat, ms")
    worker = NamedKey(
        "hash",
        "with its worker",
        "the worker's registration, and the facts that masters keep about it",
        of=("worker_id",),
    )
    claims = NamedKey("set", "while not empty", "jobs that the worker holds", of=("worker_id",))
    left = NamedKey(
        "string",
        "expires",
        "when the worker announced that it was shutting down, ms; present only if it then unregistered while it "
        "held claims",
        of=("worker_id",),
    )
    mail = NamedKey(
        "string",
        "expires",
        "jobs and tokens that were claimed for the newest poll of a worker that pulls",
        of=("worker_id",),
    )
    served_names = Key(
        "sorted set",
        "while not empty",
        "names that any worker has served; score: when a worker last reported it, ms",
    )
    contracts = NamedKey(
        "hash",
        "expires",
        "by digest: when a worker last reported this contract of the name, and the contract as JSON",
        of=("name",),
    )
    requirements = Key(
        "hash",
        "while not empty",
        "queues of jobs that require labels, as `name`, a tab, and the labels as JSON: the number of their lanes",
    )
    slot_rules = Key(
        "hash",
        "while not empty",
        "by ID of a rule: the number of slots for workers on a node with certain labels, and the rule as "
        "MessagePack",
    )
    worker_urls = Key("hash", "while not empty", "by URL: the worker that serves it now")
    leader = Key("string", "expires", "`epoch:nonce:master_id` of the leader")
    epoch = Key("string", "always", "`epoch:nonce` of the newest leadership")
    demoted = Key("string", "expires", "ID of the master that must not lead for a while")
    masters = Key("sorted set", "while not empty", "running masters; score: last heartbeat, ms")
    master_info = Key(
        "hash",
        "while not empty",
        "by ID: node, process, URL, version and start of a master, and whether it listens on sharded channels, as "
        "MessagePack",
    )
    settings = Key(
        "hash",
        "always",
        "`version` and `document`: the settings that were changed at run time, as MessagePack; `targets`, "
        "`namespaces`: versions of the targets and of the namespaces",
    )
    pushes = Key(
        "hash",
        "always",
        "`second` and `count`: the jobs that were pushed in this second, while the namespace has the quota "
        "`pushes_per_s`",
    )
    namespaces = Key(
        "hash",
        "while not empty",
        "by name, in the shard of the default namespace: version and tag of a namespace, then the rest as MessagePack",
    )
    move = NamedKey(
        "hash",
        "with its namespace",
        "in the shard of the default namespace: the newest move of a namespace to another store: `id`, `terms`, "
        "`step`, `progress`; the `number` of its `mover`, which holds the move `until` a time; which masters have "
        "`released` the namespace; who wants to `abort`",
        of=("namespace",),
    )
    moves = Key(
        "sorted set", "while not empty", "namespaces that are being moved; score: end of the hold, ms"
    )
    left_copies = Key(
        "sorted set",
        "while not empty",
        "by store, tag and mover: copies that moves left behind; score: when they are removed, ms",
    )
    frozen = Key(
        "string",
        "while a move runs, and until its copy is removed",
        "the move and the mover that froze the data, and the mark that the data had. No master serves such data",
    )
    fence = Key("string", "always", "the newest fence given to a claim")
    generation = Key(
        "string", "always", "created at the first start on this store; if it is gone, the data are gone, too"
    )
    restoring = Key(
        "string",
        "while a restore runs",
        "the backup that is being restored; no master starts on the shard meanwhile",
    )
    restore_hold = Key(
        "string",
        "expires",
        "ID of the restore that is under way; it renews this key, and other restores are refused meanwhile",
    )
    identity = Key("hash", "always", "version of the tokens and users")
    tokens = Key(
        "hash", "while not empty", "by ID: label, scopes, SHA-256 and dates of a token, as MessagePack"
    )
    token_uses = Key("hash", "while not empty", "by ID: when the token was last used, ms")
    users = Key(
        "hash", "while not empty", "by name: role and argon2id hash of a user's password, as MessagePack"
    )
    logins = Key("hash", "while not empty", "by user: the last login, ms")
    login_attempts = Key(
        "hash", "expires", "failed logins of this minute by address (`a`) and user (`u`), as digests"
    )
    session = NamedKey(
        "hash",
        "expires",
        "a session, by the SHA-256 of the secret in the browser's cookie: its user or token, or the grant of "
        "a login provider; its end, and its last use",
        of=("digest",),
    )
    sessions = NamedKey(
        "sorted set", "expires", "sessions of one user or token; score: their end, ms", of=("subject",)
    )
    login_used = NamedKey(
        "string",
        "expires",
        "for a quarter of an hour, by the digest of its state: a login by a provider that was used, so that "
        "it works only once",
        of=("digest",),
    )
    minute = NumberedKey(
        "hash",
        "expires",
        "by name (empty: all together): the counts of one minute, by its number since 1970; kept 24 h",
        of=("number",),
    )
    hour = NumberedKey(
        "hash",
        "expires",
        "by name (empty: all together): the counts of one hour, by its number since 1970; kept 30 d",
        of=("number",),
    )
    worker_minute = NumberedKey(
        "hash",
        "expires",
        "by master and number of its call: attempts that ended on workers in this minute; kept 10 min",
        of=("number",),
    )
    counted_names = Key("sorted set", "while not empty", "names that have counts; score: last counted, ms")
    flushed = NamedKey(
        "string", "expires", "number of the master's last call that added counts", of=("master_id",)
    )
    backlog = Key("string", "expires", "the leader's last sample of the ready jobs, as MessagePack")
    timeline = Key(
        "stream",
        "the newest",
        "changes in the state of masters, workers and the store, as MessagePack",
    )
    timeline_acknowledged = Key(
        "stream",
        "always",
        "who handled which incident, as MessagePack in the field `entry`; about the last 2,000",
    )
    timeline_marks = Key(
        "string", "always", "the state that the leader saw when it last wrote to `timeline`, as MessagePack"
    )
    failure_groups = Key(
        "hash",
        "while not empty",
        "by ID: number, times and an example job of failures of one kind, as MessagePack",
    )
    failure_ignores = Key(
        "hash", "while not empty", "by ID: who ignores this failure group, and until when, as MessagePack"
    )
    failure_triage = Key(
        "hash",
        "while not empty",
        "by `a:` and ID: who is assigned to this failure group; by `r:` and ID: the version in which it is "
        "resolved; by `m:` and ID: the group into which it is merged",
    )
    failures_seen = Key("sorted set", "while not empty", "IDs of failure groups; score: last seen, ms")
    idempotency = NamedKey(
        "string",
        "expires",
        "job ID and content digest of an idempotency key. After the push was accepted, one character follows: "
        "`+`, `=` (the job held the uniqueness key) or `~` (the job took the content)",
        of=("digest",),
    )
    unique = NamedKey(
        "string",
        "with its job; after a window expires",
        "the job that last took a uniqueness key: its ID, u8 scope, i64 end of the window in ms (0: none)",
        of=("digest",),
    )
    unique_used = Key("string", "always", "exists once a job with a uniqueness key was enqueued")

    def __init__(self, shard: str) -> None:
        self.shard = shard
        self.tag = f"{{{shard}}}:"
        vars(self).update({info.name: info.build(self.tag) for info in KEYS})
        # Prefixes of keys for scripts, which append the rest.
        self.job_prefix = self.job("")
        self.idempotency_prefix = self.idempotency("")
        self.unique_prefix = self.unique("")
        self.batch_prefix = self.batch("")
        self.batch_members_prefix = self.batch_members("")
        self.history_prefix = self.history("")
        self.progress_prefix = self.progress("")
        self.challenges_prefix = self.challenges("")
        self.callbacks_prefix = self.callbacks("")
        self.log_prefix = self.log("")
        self.logs_prefix = self.logs("")
        self.awaits_prefix = self.awaits("")
        self.dependents_prefix = self.dependents("")
        self.result_prefix = self.result("")
        self.ready_prefix = self.ready("")
        self.worker_prefix = self.worker("")
        self.left_prefix = self.left("")
        self.contracts_prefix = self.contracts("")
        self.claims_prefix = self.claims("")
        self.lane_prefix = self.lane("")
        self.lanes_prefix = self.lanes("")
        self.handed_over_prefix = self.handed_over("")
        self.slots_prefix = self.slots("")
        self.starts_prefix = self.starts("")
        self.charges_prefix = self.charges("")
        self.action_prefix = self.action("")
        self.session_prefix = self.session("")
        self.sessions_prefix = self.sessions("")
        self.open_prefix = self.open_lanes("")
        self.parked_prefix = f"{self.tag}parked:"
        self.wake_channel = f"{self.tag}wake"
        self.finished_channel = f"{self.tag}finished"
        self._finished = {state: self.index(state) for state in FINISHED}

    def finished(self, state: JobState) -> str:
        """Return the index of a final state."""
        try:
            return self._finished[state]
        except KeyError:
            raise ValueError(f"{state} is not a final state") from None

    def index(self, state: JobState) -> str:
        """Return the index of a state. There is none for `ready`, because ready jobs are in lanes."""
        index = STATES[state].index
        if index is None:
            raise ValueError(f"{state} jobs are indexed by lane: see ready()")
        return self.tag + index


KEYS: Final[tuple[KeyInfo[object], ...]] = tuple(
    info for info in vars(Keys).values() if isinstance(info, KeyInfo)
)
_BY_STEM: Final = {info.stem: info for info in KEYS}


def row_of(key: bytes) -> KeyInfo[object] | None:
    """Return the row of a key without its tag, or None if no row of this version explains it."""
    stem, _, rest = key.partition(b":")
    row = _BY_STEM.get(stem.decode("ascii", "replace"))
    return row if row is not None and bool(row.of) == bool(rest) else None
