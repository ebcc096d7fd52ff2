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

    def __init__(self, shard: str) -> None:
        self.tag = f"{{{shard}}}:"
        t = self.tag
        self.job_prefix = f"{t}job:"
        self.history_prefix = f"{t}history:"
        self.result_prefix = f"{t}result:"
        self.ready_prefix = f"{t}ready:"
        self.worker_prefix = f"{t}worker:"
        self.claims_prefix = f"{t}claims:"
        self.names = f"{t}names"
        self.scheduled = f"{t}scheduled"
        self.retrying = f"{t}retrying"
        self.expiring = f"{t}expiring"
        self.running = f"{t}running"
        self.results = f"{t}results"
        self.damaged = f"{t}damaged"
        self.workers = f"{t}workers"
        self.worker_urls = f"{t}worker_urls"
        self.leader = f"{t}leader"
        self.epoch = f"{t}epoch"
        self.fence = f"{t}fence"
        self.generation = f"{t}generation"
        self.wake_channel = f"{t}wake"
        self.finished_channel = f"{t}finished"

    def job(self, job_id: str) -> str:
        return self.job_prefix + job_id

    def history(self, job_id: str) -> str:
        return self.history_prefix + job_id

    def result(self, job_id: str) -> str:
        return self.result_prefix + job_id

    def ready(self, name: str) -> str:
        return self.ready_prefix + name

    def worker(self, worker_id: str) -> str:
        return self.worker_prefix + worker_id

    def claims(self, worker_id: str) -> str:
        return self.claims_prefix + worker_id

    def idempotency(self, digest: str) -> str:
        return f"{self.tag}idempotency:{digest}"

    def finished(self, state: JobState) -> str:
        if state not in FINISHED:
            raise ValueError(f"{state} is not a final state")
        return self.tag + state

    def index(self, state: JobState) -> str:
        """The index of a state other than ready, whose jobs lie in one lane per name."""
        match state:
            case JobState.SCHEDULED:
                return self.scheduled
            case JobState.RETRYING:
                return self.retrying
            case JobState.RUNNING:
                return self.running
            case JobState.READY:
                raise ValueError("ready jobs are indexed by name: see ready()")
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
        "ready:{name}",
        "sorted set",
        "while not empty",
        "ready jobs of a name; score: priority; oldest ID first within",
    ),
    KeyInfo("names", "set", "while not empty", "names that may have ready jobs"),
    KeyInfo("scheduled", "sorted set", "while not empty", "jobs that wait for their time; score: due, ms"),
    KeyInfo(
        "retrying", "sorted set", "while not empty", "failed jobs that wait for their retry; score: due, ms"
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
    KeyInfo("worker_urls", "hash", "while not empty", "URL to the worker that serves it now"),
    KeyInfo("leader", "string", "expires", "`epoch:nonce:master_id` of the leader"),
    KeyInfo("epoch", "string", "always", "`epoch:nonce` of the newest leadership"),
    KeyInfo("fence", "string", "always", "the newest fence given to a claim"),
    KeyInfo(
        "generation",
        "string",
        "always",
        "made with the first start on this store; if it is gone, so is the data",
    ),
    KeyInfo(
        "idempotency:{digest}",
        "string",
        "expires",
        "job ID and content digest of an Idempotency-Key, and `+` once the job was accepted",
    ),
)
