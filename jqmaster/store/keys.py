"""Every key that jqmaster uses: name, type, and what ends its life. docs/redis_keys.md explains each; a test compares.

All keys of a shard carry its hash tag, so that one script may touch them on a cluster.
"""

from dataclasses import dataclass

from jqmaster.domain.job import FINISHED, JobState


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """`lives`: "always", "with its job", "with its worker", "while not empty", or "expires"."""

    pattern: str
    type: str
    lives: str
    holds: str


class Keys:
    """The key names of one shard."""

    def __init__(self, shard: str) -> None:  # noqa: PLR0915  a table
        self.tag = f"{{{shard}}}:"
        t = self.tag
        self.job_prefix = f"{t}job:"
        self.history_prefix = f"{t}history:"
        self.result_prefix = f"{t}result:"
        self.ready_prefix = f"{t}ready:"
        self.worker_prefix = f"{t}worker:"
        self.claims_prefix = f"{t}claims:"
        self.mail_prefix = f"{t}mail:"
        self.lane_prefix = f"{t}lane:"
        self.lanes_prefix = f"{t}lanes:"
        self.open_prefix = f"{t}open:"
        self.parked_prefix = f"{t}parked:"
        self.slots_prefix = f"{t}slots:"
        self.starts_prefix = f"{t}starts:"
        self.names = f"{t}names"
        self.ready_counts = f"{t}ready_counts"
        self.rules = f"{t}rules"
        self.constraints = f"{t}constraints"
        self.reopened = f"{t}reopened"
        self.slot_counts = f"{t}slot_counts"
        self.slot_lists = f"{t}slot_lists"
        self.closed = f"{t}closed"
        self.counted = f"{t}counted"
        self.gates_due = f"{t}gates_due"
        self.holds = f"{t}holds"
        self.shadowed = f"{t}shadowed"
        self.audit = f"{t}audit"
        self.audit_export = f"{t}audit_export"
        self.access = f"{t}access"
        self.access_folds = f"{t}access_folds"
        self.actions = f"{t}actions"
        self.running_actions = f"{t}running_actions"
        self.action_prefix = f"{t}action:"
        self.watched_prefix = f"{t}watched:"
        self.scheduled = f"{t}scheduled"
        self.retrying = f"{t}retrying"
        self.expiring = f"{t}expiring"
        self.suspects = f"{t}suspects"
        self.running = f"{t}running"
        self.results = f"{t}results"
        self.damaged = f"{t}damaged"
        self.workers = f"{t}workers"
        self.worker_urls = f"{t}worker_urls"
        self.leader = f"{t}leader"
        self.epoch = f"{t}epoch"
        self.demoted = f"{t}demoted"
        self.masters = f"{t}masters"
        self.master_info = f"{t}master_info"
        self.fence = f"{t}fence"
        self.settings = f"{t}settings"
        self.generation = f"{t}generation"
        self.identity = f"{t}identity"
        self.tokens = f"{t}tokens"
        self.token_uses = f"{t}token_uses"
        self.users = f"{t}users"
        self.logins = f"{t}logins"
        self.login_attempts = f"{t}login_attempts"
        self.session_prefix = f"{t}session:"
        self.sessions_prefix = f"{t}sessions:"
        self.flushed_prefix = f"{t}flushed:"
        self.minute_prefix = f"{t}minute:"
        self.hour_prefix = f"{t}hour:"
        self.counted_names = f"{t}counted_names"
        self.backlog = f"{t}backlog"
        self.failure_groups = f"{t}failure_groups"
        self.failures_seen = f"{t}failures_seen"
        self.wake_channel = f"{t}wake"
        self.finished_channel = f"{t}finished"

    def job(self, job_id: str) -> str:
        return self.job_prefix + job_id

    def history(self, job_id: str) -> str:
        return self.history_prefix + job_id

    def result(self, job_id: str) -> str:
        return self.result_prefix + job_id

    def ready(self, lane: str) -> str:
        return self.ready_prefix + lane

    def lane(self, lane: str) -> str:
        return self.lane_prefix + lane

    def lanes(self, name: str) -> str:
        return self.lanes_prefix + name

    def open_lanes(self, group: str) -> str:
        return self.open_prefix + group

    def parked(self, gate: str, group: str) -> str:
        return f"{self.parked_prefix}{gate}:{group}"

    def open_groups(self, name: str) -> str:
        return f"{self.tag}open_groups:{name}"

    def waiters(self, gate: str) -> str:
        return f"{self.tag}waiters:{gate}"

    def slots(self, gates: str) -> str:
        return self.slots_prefix + gates

    def starts(self, gate: str) -> str:
        return self.starts_prefix + gate

    def limits(self, cid: str) -> str:
        return f"{self.tag}limits:{cid}"

    def overrides(self, cid: str) -> str:
        return f"{self.tag}overrides:{cid}"

    def gates(self, cid: str) -> str:
        return f"{self.tag}gates:{cid}"

    def crowded(self, cid: str) -> str:
        return f"{self.tag}crowded:{cid}"

    def served(self, cid: str) -> str:
        return f"{self.tag}served:{cid}"

    def worker(self, worker_id: str) -> str:
        return self.worker_prefix + worker_id

    def claims(self, worker_id: str) -> str:
        return self.claims_prefix + worker_id

    def mail(self, worker_id: str) -> str:
        return self.mail_prefix + worker_id

    def action(self, action_id: str) -> str:
        return self.action_prefix + action_id

    def watched(self, action_id: str) -> str:
        return self.watched_prefix + action_id

    def session(self, digest: str) -> str:
        return self.session_prefix + digest

    def sessions(self, subject: str) -> str:
        return self.sessions_prefix + subject

    def flushed(self, master_id: str) -> str:
        return self.flushed_prefix + master_id

    def minute(self, number: int) -> str:
        return f"{self.minute_prefix}{number}"

    def hour(self, number: int) -> str:
        return f"{self.hour_prefix}{number}"

    def idempotency(self, digest: str) -> str:
        return f"{self.tag}idempotency:{digest}"

    def finished(self, state: JobState) -> str:
        if state not in FINISHED:
            raise ValueError(f"{state} is not a final state")
        return self.tag + state

    def index(self, state: JobState) -> str:
        """The index of a state other than ready, whose jobs lie in lanes."""
        match state:
            case JobState.SCHEDULED:
                return self.scheduled
            case JobState.RETRYING:
                return self.retrying
            case JobState.RUNNING:
                return self.running
            case JobState.READY:
                raise ValueError("ready jobs are indexed by lane: see ready()")
            case _:
                return self.finished(state)


KEYS: tuple[KeyInfo, ...] = (
    KeyInfo(
        "job:{job_id}",
        "string",
        "with its job",
        "the job's record: fixed head, name, retry/tags/headers, argument (store/codec.py)",
    ),
    KeyInfo(
        "history:{job_id}",
        "list",
        "with its job",
        "ended attempts that were not the successful one; the last 100",
    ),
    KeyInfo(
        "result:{job_id}",
        "string",
        "until its time in `results`",
        "the result of a keep_result job, as the worker sent it",
    ),
    KeyInfo(
        "ready:{lane}",
        "sorted set",
        "while not empty",
        "ready jobs of a lane; score: priority; oldest ID first within",
    ),
    KeyInfo("names", "set", "while not empty", "names that have lanes"),
    KeyInfo("ready_counts", "hash", "while not empty", "by name: how many jobs are ready"),
    KeyInfo(
        "lane:{lane}",
        "string",
        "with its jobs",
        "name, edition of the rules, group, gates, unfinished jobs, and where it stands in `open` or `parked`",
    ),
    KeyInfo("lanes:{name}", "sorted set", "while not empty", "lanes of a name; score: edition of the rules"),
    KeyInfo("open_groups:{name}", "set", "while not empty", "groups of lanes that no shared gate closes"),
    KeyInfo(
        "open:{group}",
        "sorted set",
        "while not empty",
        "open lanes of a group; score: priority of the first job; member: its ID, then the lane",
    ),
    KeyInfo(
        "parked:{gate}:{group}",
        "sorted set",
        "while not empty",
        "lanes that this gate closes, ordered as in `open`",
    ),
    KeyInfo(
        "waiters:{gate}",
        "set",
        "while not empty",
        "what this gate closes: `G` + group + name, or `L` + group + name where lanes are parked",
    ),
    KeyInfo(
        "rules",
        "hash",
        "always",
        "version and edition of the constraints, the edition in force, and the mark of the data again, for those who enqueue",
    ),
    KeyInfo("constraints", "hash", "while not empty", "by name: ETag, then the constraint as MessagePack"),
    KeyInfo("limits:{cid}", "hash", "with its constraint", "what scripts need of a constraint"),
    KeyInfo(
        "overrides:{cid}", "hash", "with its constraint", "by gate: `concurrency,rate,period_ms,is_paused`"
    ),
    KeyInfo(
        "gates:{cid}",
        "hash",
        "while not empty",
        "by gate: how many jobs wait behind it, and the key's value for people",
    ),
    KeyInfo(
        "crowded:{cid}",
        "sorted set",
        "while not empty",
        "gates behind which two jobs or more wait; score: the logarithm of their number",
    ),
    KeyInfo(
        "served:{cid}", "hash", "with its constraint", "by gate of a fair constraint: when it was last served"
    ),
    KeyInfo("served_stamp", "string", "always", "the newest of these instants"),
    KeyInfo(
        "slots:{gates}",
        "hash",
        "while not empty",
        "running jobs that count at this gate with a key, or at all of these without one, with their tokens",
    ),
    KeyInfo(
        "slot_counts", "hash", "while not empty", "by gate without a key: how many of all slots are at it"
    ),
    KeyInfo(
        "slot_lists", "set", "while not empty", "lists of gates without a key under which slots are kept"
    ),
    KeyInfo(
        "starts:{gate}",
        "sorted set",
        "expires",
        "tokens of the claims that the gate remembers; score: when, ms",
    ),
    KeyInfo("closed", "set", "while not empty", "gates at which something lies"),
    KeyInfo("counted", "set", "while not empty", "constraints of which gates may be known"),
    KeyInfo("gates_due", "sorted set", "while not empty", "gates that open by time; score: when, ms"),
    KeyInfo("holds", "hash", "while not empty", "gates that a worker asked to hold, and until when, ms"),
    KeyInfo(
        "reopened",
        "sorted set",
        "while not empty",
        "constraints whose gates may let more through than when they closed; score: since which version",
    ),
    KeyInfo("shadowed", "hash", "while not empty", "by shadow constraint: starts that it would have delayed"),
    KeyInfo(
        "actions", "sorted set", "while not empty", "actions on many jobs that are known; score: begun, ms"
    ),
    KeyInfo("running_actions", "set", "while not empty", "those of them that are under way"),
    KeyInfo(
        "action:{action_id}",
        "hash",
        "expires",
        "what was asked for (`spec`, `ids`), how far it came (`progress`; `done`, counted with each job), and `canceled_by` once somebody wishes its end",
    ),
    KeyInfo(
        "watched:{action_id}",
        "set",
        "with its action",
        "retried jobs whose end is waited for, where too many failures stop the action",
    ),
    KeyInfo("audit", "stream", "the newest", "who changed what, but for the access log"),
    KeyInfo(
        "audit_export",
        "hash",
        "while not empty",
        "by log: position and number of the newest exported entry",
    ),
    KeyInfo(
        "access",
        "stream",
        "the newest",
        "the access log: logins, refused ones, sessions, tokens, users, settings of access",
    ),
    KeyInfo(
        "access_folds",
        "hash",
        "while not empty",
        "repeats of access events within an hour, by group and kind: since, last, count and the newest entry",
    ),
    KeyInfo("scheduled", "sorted set", "while not empty", "jobs that wait for their time; score: due, ms"),
    KeyInfo(
        "retrying", "sorted set", "while not empty", "failed jobs that wait for their retry; score: due, ms"
    ),
    KeyInfo(
        "suspects",
        "set",
        "while not empty",
        "retrying jobs that workers were lost under, and that wait for a worker to themselves",
    ),
    KeyInfo(
        "expiring", "sorted set", "while not empty", "waiting jobs with expires_at; score: that instant, ms"
    ),
    KeyInfo(
        "running",
        "sorted set",
        "while not empty",
        "claimed jobs; score: the earlier of lease end and deadline, ms",
    ),
    KeyInfo("succeeded", "sorted set", "while not empty", "succeeded jobs; score: finished, ms"),
    KeyInfo("failed", "sorted set", "while not empty", "failed jobs; score: finished, ms"),
    KeyInfo("canceled", "sorted set", "while not empty", "canceled jobs; score: finished, ms"),
    KeyInfo(
        "skipped",
        "sorted set",
        "while not empty",
        "jobs that still waited when their expires_at passed; score: finished, ms",
    ),
    KeyInfo("results", "sorted set", "while not empty", "kept results; score: when each is discarded, ms"),
    KeyInfo(
        "damaged", "set", "while not empty", "IDs that an index named and whose record could not be read"
    ),
    KeyInfo("workers", "sorted set", "while not empty", "registered workers; score: last heartbeat, ms"),
    KeyInfo(
        "worker:{worker_id}",
        "hash",
        "with its worker",
        "what the worker said of itself, and what it was told",
    ),
    KeyInfo("claims:{worker_id}", "set", "while not empty", "jobs that the worker holds"),
    KeyInfo(
        "mail:{worker_id}",
        "string",
        "expires",
        "jobs and tokens that the newest poll of a worker that pulls was given",
    ),
    KeyInfo("worker_urls", "hash", "while not empty", "URL to the worker that serves it now"),
    KeyInfo("leader", "string", "expires", "`epoch:nonce:master_id` of the leader"),
    KeyInfo("epoch", "string", "always", "`epoch:nonce` of the newest leadership"),
    KeyInfo("demoted", "string", "expires", "ID of the master that shall not lead for a while"),
    KeyInfo("masters", "sorted set", "while not empty", "masters that run; score: last sign of life, ms"),
    KeyInfo(
        "master_info",
        "hash",
        "while not empty",
        "by ID: node, process, URL, version and start of a master, as MessagePack",
    ),
    KeyInfo(
        "settings",
        "hash",
        "always",
        "`version` of the settings that were changed at run time, and `document`: the changed ones, as MessagePack",
    ),
    KeyInfo("fence", "string", "always", "the newest fence given to a claim"),
    KeyInfo(
        "generation",
        "string",
        "always",
        "made with the first start on this store; if it is gone, so is the data",
    ),
    KeyInfo("identity", "hash", "always", "version of the tokens and users"),
    KeyInfo(
        "tokens",
        "hash",
        "while not empty",
        "by ID: label, scopes, SHA-256 and dates of a token, as MessagePack",
    ),
    KeyInfo("token_uses", "hash", "while not empty", "by ID: when the token was last used, ms"),
    KeyInfo(
        "users",
        "hash",
        "while not empty",
        "by name: role and argon2id hash of a user's password, as MessagePack",
    ),
    KeyInfo("logins", "hash", "while not empty", "by user: the last login, ms"),
    KeyInfo(
        "login_attempts",
        "hash",
        "expires",
        "failed logins of this minute by address (`a`) and user (`u`), as digests",
    ),
    KeyInfo(
        "session:{digest}",
        "hash",
        "expires",
        "a login, by the SHA-256 of what the browser's cookie holds: whose, until when, last used",
    ),
    KeyInfo(
        "sessions:{subject}", "sorted set", "expires", "sessions of one user or token; score: their end, ms"
    ),
    KeyInfo(
        "minute:{number}",
        "hash",
        "expires",
        "by name (empty: all together): what was counted in this minute since 1970; kept 24 h",
    ),
    KeyInfo("hour:{number}", "hash", "expires", "the same of this hour; kept 30 d"),
    KeyInfo(
        "counted_names", "sorted set", "while not empty", "names that have counts; score: last counted, ms"
    ),
    KeyInfo("flushed:{master_id}", "string", "expires", "number of the master's last call that added counts"),
    KeyInfo("backlog", "string", "expires", "what the leader saw last of the ready jobs, as MessagePack"),
    KeyInfo(
        "failure_groups",
        "hash",
        "while not empty",
        "by ID: how often, since when and of which job such a failure was seen, as MessagePack",
    ),
    KeyInfo("failures_seen", "sorted set", "while not empty", "IDs of failure groups; score: last seen, ms"),
    KeyInfo(
        "idempotency:{digest}",
        "string",
        "expires",
        "job ID and content digest of an Idempotency-Key, and `+` once the job was accepted",
    ),
)
