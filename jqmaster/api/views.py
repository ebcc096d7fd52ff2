"""Domain objects as clients see them."""

from collections.abc import Sequence
from typing import Any, Final, get_args

from jqmaster.api.encoding.answers import RawMsgpack
from jqmaster.domain.challenges.challenge import callback_fields
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent, shown_error_type
from jqmaster.domain.content.readable import readable, readable_members
from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.definitions.event_trigger import EventTrigger
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import Attempt, Cause, Job, JobSpec
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.jobs.order import Links
from jqmaster.domain.jobs.progress import Progress
from jqmaster.domain.matching import packed
from jqmaster.domain.matching.matcher import Path
from jqmaster.domain.notices.webhook import shown_url
from jqmaster.domain.workers.slot_rule import SlotRule
from jqmaster.domain.workers.worker import Worker, WorkerState
from jqmaster.domain.workers.worker_figures import Figures, WorkersAlike
from jqmaster.net.link_template import links_of
from jqmaster.service.constraints.documents import describe, describe_limits
from jqmaster.service.constraints.preview import Preview
from jqmaster.service.constraints.reader import Detail, KeyUsage, Usage
from jqmaster.service.constraints.replay import PastReplay
from jqmaster.service.definitions.documents import describe as describe_definition
from jqmaster.service.definitions.reader import ShownDefinition, ShownRun
from jqmaster.service.jobs.enqueue import Enqueued, EnqueuedBulk
from jqmaster.service.jobs.excerpts import Excerpt
from jqmaster.service.jobs.reader import JobDetail
from jqmaster.service.workers.masters import ListedMaster
from jqmaster.store.constraints.documents import StoredConstraint
from jqmaster.store.identity.audit import AuditEntry
from jqmaster.store.jobs.enqueue import Conflict
from jqmaster.store.operations.bulk_actions import StoredAction
from jqmaster.store.workers.polls import Offer

MAX_SHOWN_BYTES: Final = 64 * 1024
_CONFLICT_FIELDS: Final = {Conflict.EXISTING: "duplicate", Conflict.REPLACED: "replaced"}


def _time(ms: int) -> str | None:
    return iso_ms(ms) if ms else None


def enqueue_answer(answer: Enqueued) -> dict[str, Any]:
    """`EnqueueAnswer`. The usual one has the ID alone."""
    if answer.conflict is None:
        return {"id": answer.job_id}
    return {"id": answer.job_id, _CONFLICT_FIELDS[answer.conflict]: True}


def bulk_answer(answer: EnqueuedBulk) -> dict[str, Any]:
    """`BulkAnswer`."""
    if not answer.conflicts:
        return {"ids": answer.ids}
    lists: dict[str, list[int]] = {"duplicates": [], "replaced": []}
    for index, conflict in answer.conflicts.items():
        lists["replaced" if conflict is Conflict.REPLACED else "duplicates"].append(index)
    return {"ids": answer.ids} | {field: indexes for field, indexes in lists.items() if indexes}


def job_summary(job: Job) -> dict[str, Any]:
    """`JobSummary`."""
    return {
        "id": job.id,
        "name": job.name,
        "state": str(job.state),
        "priority": job.priority,
        "attempt": job.attempt,
        "failures": job.failures,
        "losses": job.losses,
        "max_retry": job.max_retry,
        "timeout": job.timeout_ms / 1000,
        "keep_result": job.keep_result,
        "created_at": iso_ms(job.created_at_ms),
        "run_at": _time(job.due_at_ms),
        "started_at": _time(job.started_at_ms),
        "finished_at": _time(job.finished_at_ms),
        "expires_at": _time(job.expires_at_ms),
        "cause": None if job.cause is Cause.NONE else job.cause.name.lower(),
        "worker_id": job.worker_id or None,
        "tags": list(job.tags),
    }


def listed_job(job: Job, excerpt: Excerpt | None) -> dict[str, Any]:
    """`ListedJob`."""
    shown = excerpt or Excerpt()
    return job_summary(job) | {
        "error": shown.error,
        "argument_excerpt": shown.argument,
        "worker_name": shown.worker_name,
        "progress": _told(shown.progress, shown.progress.message or None) if shown.progress else None,
    }


def job_view(
    detail: JobDetail,
    constraints: Sequence[str],
    access: ContentAccess,
    *,
    has_course: bool,
    link_templates: Sequence[str] = (),
) -> dict[str, Any]:
    """`JobView`. `has_course`: the caller sees what became of it, and not its state alone."""
    job, result = detail.job, detail.result
    content = JobContent(access, job)
    argument, headers = content.argument(), content.headers()
    return job_summary(job) | {
        "attempts": [attempt_view(attempt, content, access) for attempt in detail.attempts if has_course],
        "events": [_event_view(event) for event in detail.events if has_course],
        "links": _outside_links(job, link_templates) if has_course else [],
        "headers": headers,
        "requires": dict(job.requires) if job.requires else None,
        "headers_redacted": content.is_shown and headers != job.headers,
        "argument": shown_value(argument),
        "argument_bytes": len(job.argument),
        "argument_hidden": not content.is_shown,
        "argument_redacted": content.is_shown and argument != job.argument,
        "has_result": result is not None,
        "result": _shown_result(content.result(result)) if result is not None else None,
        "result_hidden": result is not None and not content.is_shown,
        "constraints": list(constraints),
        "unique": _unique_view(job, content),
        "progress": _progress_view(detail.progress, content) if has_course else None,
        "definition": {"name": job.origin.definition, "due_at": iso_ms(job.origin.due_at_ms)}
        if job.origin
        else None,
        "batch": job.batch,
        "callback_of": job.callback_of._asdict() if job.callback_of else None,
        "notify": {
            "url": shown_url(job.notify.url),
            "on": [str(state) for state in job.notify.on],
            "with_result": job.notify.with_result,
        }
        if job.notify and content.is_shown
        else None,
        **_links_view(job, detail.links if has_course else None),
    }


def _outside_links(job: Job, templates: Sequence[str]) -> list[dict[str, str]]:
    """Return the links of a job to other systems."""
    fields = {
        "job_id": job.id,
        "name": job.name,
        "attempt": job.attempt,
        "created_ms": job.created_at_ms,
        "finished_ms": job.finished_at_ms or "",
    }
    return [{"label": label, "url": url} for label, url in links_of(templates, fields)]


def _links_view(job: Job, links: Links | None) -> dict[str, Any]:
    """Return the fields of `JobView` on the order of jobs. `links` None: the caller sees only what was pushed."""
    after = job.after
    if links is None:
        after_view = after and {
            "when": str(after.when),
            "jobs": [{"id": one, "state": None, "pending": False} for one in after.jobs],
        }
        return {"after": after_view, "dependents": [], "dependents_count": 0, "skipped_by": None}
    pending = set(links.pending)
    root = links.skipped_by
    return {
        "after": after
        and {
            "when": str(after.when),
            "jobs": [
                {"id": one, "state": state, "pending": one in pending}
                for one, state in links.predecessors.items()
            ],
        },
        "dependents": [{"id": one, "state": state} for one, state in links.dependents.items()],
        "dependents_count": links.dependents_count,
        "skipped_by": root and {"id": root.job_id, "state": root.state or None},
    }


def _progress_view(progress: Progress | None, content: JobContent) -> dict[str, Any] | None:
    """`ProgressView`."""
    return None if progress is None else _told(progress, content.text(progress.message))


def _told(progress: Progress, message: str | None) -> dict[str, Any]:
    return {"fraction": progress.fraction, "message": message, "at": iso_ms(progress.at_ms)}


def _unique_view(job: Job, content: JobContent) -> dict[str, Any] | None:
    """`UniqueView`."""
    unique = job.unique
    if unique is None:
        return None
    return {
        "key": content.unique_key(),
        "scope": str(unique.scope),
        "until": _time(unique.until_ms(job.created_at_ms)),
        "on_conflict": str(unique.on_conflict),
        "debounce": {
            "wait_s": unique.wait_ms / 1000,
            "max_s": unique.max_ms / 1000 if unique.max_ms else None,
        }
        if unique.is_debounce
        else None,
    }


def shown_value(value: bytes | None) -> RawMsgpack | None:
    """Return a value that jobs carry, as views show it; None if it is too large."""
    return RawMsgpack(readable(value)) if value is not None and len(value) <= MAX_SHOWN_BYTES else None


def _shown_result(result: bytes | None) -> RawMsgpack | None:
    return result_view(result) if result is not None and len(result) <= MAX_SHOWN_BYTES else None


def result_view(result: bytes) -> RawMsgpack:
    """`Result`, as its pusher gets it."""
    return RawMsgpack(readable_members(result))


def attempt_view(attempt: Attempt, content: JobContent, access: ContentAccess) -> dict[str, Any]:
    """`AttemptView`."""
    error = content.error(attempt)
    return {
        "attempt": attempt.attempt,
        "worker_id": attempt.worker_id,
        "started_at": iso_ms(attempt.started_at_ms),
        "finished_at": _time(attempt.finished_at_ms),
        "outcome": attempt.outcome,
        "message": content.message(attempt),
        "code": attempt.code,
        "error_type": shown_error_type(access, attempt),
        "error": None if error is None else RawMsgpack(readable(error)),
    }


def _event_view(event: Attempt) -> dict[str, Any]:
    return {
        "at": iso_ms(event.finished_at_ms),
        "event": event.outcome,
        "attempt": event.attempt,
        "worker_id": event.worker_id,
        "message": event.message,
    }


def worker_view(
    worker: Worker, figures: Figures, *, now_ms: int, stale_ms: int, breaker: str | None
) -> dict[str, Any]:
    """`WorkerView`."""
    spec = worker.spec
    return {
        "id": worker.id,
        "url": spec.url,
        "names": list(spec.names),
        "max_jobs": spec.max_jobs,
        "own_max_jobs": worker.own_max_jobs or spec.max_jobs,
        "busy": worker.busy,
        "load": worker.busy / spec.max_jobs,
        "role": "pull" if spec.url is None else "push",
        "node_id": spec.node_id,
        "pid": spec.pid,
        "labels": dict(spec.labels),
        "version": spec.version,
        "registered_at": iso_ms(worker.registered_at_ms),
        "last_seen_at": iso_ms(worker.last_seen_ms),
        "state": worker.state(now_ms, stale_ms),
        "detached_by": worker.detached_by,
        "breaker": breaker,
        "figures": worker_figures(figures),
    }


def slot_rule(rule: SlotRule) -> dict[str, Any]:
    """`SlotRuleView`."""
    return {
        "id": rule.id,
        "node_id": rule.node_id,
        "labels": dict(rule.labels),
        "max_jobs": rule.max_jobs,
        "set_by": rule.set_by,
        "set_at": iso_ms(rule.set_at_ms),
    }


def worker_figures(figures: Figures) -> dict[str, Any]:
    """`WorkerFigures`."""
    share = figures.failed_share
    return {
        "since": iso_ms(figures.since_ms),
        "succeeded": figures.counts.succeeded,
        "failed": figures.counts.failed,
        "failed_share": None if share is None else round(share, 4),
        "attempts_per_s": round(figures.per_s, 3),
        "run": figures.counts.run.distribution(),
        "marks": list(figures.marks),
    }


def worker_group(group: WorkersAlike, *, now_ms: int, stale_ms: int) -> dict[str, Any]:
    """`WorkersAlike`."""
    states = dict.fromkeys(get_args(WorkerState), 0)
    for worker in group.workers:
        states[worker.state(now_ms, stale_ms)] += 1
    return {
        "value": group.value,
        "label": group.label,
        "workers": states,
        "max_jobs": sum(worker.spec.max_jobs for worker in group.workers),
        "busy": sum(worker.busy for worker in group.workers),
        "figures": worker_figures(group.figures),
    }


def dispatch(offer: Offer) -> dict[str, Any]:
    """`Dispatch`; the argument goes out as the bytes that the pusher sent."""
    job, record = offer.job, offer.job.record
    fields: dict[str, Any] = {
        "job_id": job.job_id,
        "attempt": record.attempt,
        "token": job.token,
        "fence": job.fence,
        "phase": "callback" if record.has_callback else "run",
        "name": record.name,
        "argument": RawMsgpack(record.argument),
        "timeout": record.timeout_ms / 1000,
        "not_after_ms": offer.not_after_ms,
        "lease_until_ms": offer.lease_until_ms,
        "headers": record.headers,
    }
    if job.checkpoint is not None:
        fields["checkpoint"] = job.checkpoint
    if record.batch is not None:
        fields["batch"] = record.batch
    if job.inputs is not None:
        fields["inputs"] = [
            {
                "job_id": one.job_id,
                "state": one.state and str(one.state),
                "result": one.result and RawMsgpack(one.result),
                "omitted": None if one.result else str(one.omitted),
            }
            for one in job.inputs
        ]
    if record.has_callback:
        fields |= callback_fields(job.callbacks)
    return fields


def master_view(listed: ListedMaster) -> dict[str, Any]:
    """`MasterView`."""
    record = listed.seen.record
    return {
        "id": record.id,
        "role": str(listed.role),
        "state": "fresh" if listed.is_fresh else "stale",
        "node_id": record.node_id,
        "pid": record.pid,
        "url": record.url,
        "version": record.version,
        "started_at": iso_ms(record.started_at_ms),
        "last_seen_at": iso_ms(listed.seen.last_seen_ms),
    }


def worker_detail(
    worker: Worker,
    held: Sequence[Job],
    figures: Figures,
    *,
    now_ms: int,
    stale_ms: int,
    breaker: str | None,
) -> dict[str, Any]:
    """`WorkerDetail`."""
    return worker_view(worker, figures, now_ms=now_ms, stale_ms=stale_ms, breaker=breaker) | {
        "jobs": [
            {
                "job_id": job.id,
                "name": job.name,
                "attempt": job.attempt,
                "started_at": iso_ms(job.started_at_ms),
            }
            for job in held
        ]
    }


def constraint_view(stored: StoredConstraint, access: ContentAccess) -> dict[str, Any]:
    """`ConstraintView`."""
    return {
        **access.constraint(describe(stored.constraint)),
        "values_hidden": access.cover_of(stored.constraint.key) is not None,
        "created_by": stored.created_by,
        "etag": stored.etag,
        "created_at": iso_ms(stored.created_at_ms),
        "changed_at": iso_ms(stored.changed_at_ms),
    }


def definition_view(shown: ShownDefinition, access: ContentAccess) -> dict[str, Any]:
    """`DefinitionView`."""
    stored, clock = shown.known.stored, shown.known.clock
    document = describe_definition(stored.definition)
    matcher = document["matcher"]
    return {
        **document,
        "matcher": None if matcher is None else access.matcher(matcher),
        "argument": _argument_of_events(stored.definition, access),
        "job": document["job"] | _job_content(stored.definition.job, access),
        "next_due_at": _time(shown.next_due_ms or 0),
        "queued_at": _time(clock.queued_ms or 0),
        "last_run": run_view(shown.last_run) if shown.last_run else None,
        "runs": [run_view(one) for one in shown.runs],
        "etag": stored.etag,
        "created_by": stored.created_by,
        "created_at": iso_ms(stored.created_at_ms),
        "changed_at": iso_ms(stored.changed_at_ms),
    }


def _argument_of_events(definition: Definition, access: ContentAccess) -> RawMsgpack | None:
    own = access.for_name(definition.job.name)
    if (
        not isinstance(definition.trigger, EventTrigger)
        or definition.trigger.argument is None
        or not own.is_granted
    ):
        return None
    return shown_value(own.redactor.encoded("argument", packed.encoded(definition.trigger.argument.document)))


def _job_content(job: JobSpec, access: ContentAccess) -> dict[str, Any]:
    own = access.for_name(job.name)
    argument = own.redactor.encoded("argument", job.argument)
    headers = own.redactor.headers(job.headers)
    is_shown = own.is_granted
    return {
        "argument": shown_value(argument) if is_shown else None,
        "argument_bytes": len(job.argument),
        "argument_hidden": not is_shown,
        "argument_redacted": is_shown and (argument != job.argument or headers != job.headers),
        "headers": headers if is_shown else {},
    }


def run_view(shown: ShownRun) -> dict[str, Any]:
    """`RunView`."""
    run = shown.run
    return {
        "definition": run.definition,
        "due_at": iso_ms(run.due_at_ms),
        "outcome": str(run.outcome),
        "reason": str(run.reason) or None,
        "job_id": run.job_id or None,
        "job_state": str(shown.job_state) if shown.job_state else None,
        "recorded_at": iso_ms(run.recorded_at_ms),
        "event_id": run.event_id or None,
    }


def usage_view(usage: Usage) -> dict[str, Any]:
    """`UsageView`."""
    return {
        "waiting": usage.waiting,
        "running": usage.running,
        "starts_in_window": usage.starts,
        "shadow_delayed": usage.shadow_delayed,
        "next_opening": _time(usage.next_opening_ms or 0),
        "in_force": usage.is_in_force,
        "keys": usage.keys,
        "held": usage.held,
        "closed_keys": usage.closed_keys,
        "is_exact": usage.is_exact,
    }


def constraint_detail(detail: Detail, access: ContentAccess) -> dict[str, Any]:
    """`ConstraintDetail`."""
    key = detail.stored.constraint.key
    return {
        **constraint_view(detail.stored, access),
        "usage": usage_view(detail.usage),
        "held_until": _time(detail.held_until_ms or 0),
        "top_keys": [_key_usage_view(one, key, access) for one in detail.top_keys],
        "value": _key_usage_view(detail.asked, key, access) if detail.asked else None,
        "holders": [
            {
                "job_id": holder.job_id,
                "worker_id": holder.worker_id,
                "since": iso_ms(holder.since_ms),
                "value": access.key_text(key, holder.text) if key else None,
            }
            for holder in detail.holders
        ],
    }


def _key_usage_view(one: KeyUsage, key: Path | None, access: ContentAccess) -> dict[str, Any]:
    gate = one.gate
    text = access.key_text(key, one.text)
    return {
        # The ID of a covered value would let a reader try guesses.
        "id": one.value_id if text == one.text else None,
        "value": text,
        "waiting": gate.waiting,
        "running": gate.running,
        "starts_in_window": gate.starts,
        "limits": describe_limits(one.limits),
        "own_limits": None if one.own is None else describe_limits(one.own),
        "held_until": _time(gate.held_until_ms or 0),
        "next_opening": _time(gate.opens_at_ms or 0),
        "is_open": gate.is_open,
    }


def preview_view(preview: Preview, access: ContentAccess) -> dict[str, Any]:
    """`PreviewAnswer`."""
    return {
        "count": preview.count,
        "without_key": preview.without_key,
        "looked_at": preview.looked_at,
        "is_exact": preview.is_exact,
        "examples": [job_summary(job) for job in preview.examples],
        "keys": None
        if preview.keys is None
        else [
            {"value": access.key_text(preview.key, value), "count": count} for value, count in preview.keys
        ],
        "distinct_keys": preview.distinct_keys,
    }


def replay_view(past: PastReplay, access: ContentAccess) -> dict[str, Any]:
    """`ReplayAnswer`."""
    told, key = past.told, past.constraint.key
    return {
        "from": iso_ms(told.from_ms),
        "to": iso_ms(told.to_ms),
        "started": told.started,
        "held": told.held,
        "held_now": told.held_now,
        "most_held": told.most_held,
        "p95_ms": told.p95_ms,
        "longest_ms": told.longest_ms,
        "without_key": past.without_key,
        "keys": None
        if told.keys is None
        else [
            {
                "value": access.key_text(key, one.value.text),
                "started": one.started,
                "held": one.held,
                "longest_ms": one.longest_ms,
            }
            for one in told.keys
        ],
        "distinct_keys": told.distinct_keys,
        "points": [
            {"at": iso_ms(point.at_ms), "started": point.started, "held": point.held} for point in told.points
        ],
        "looked_at": past.looked_at,
        "is_whole": past.is_whole,
        "gone": past.gone,
    }


def audit_view(entry: AuditEntry, access: ContentAccess) -> dict[str, Any]:
    """`AuditEntryView`."""
    return {
        "id": entry.id,
        "log": entry.log,
        "at": iso_ms(entry.at_ms),
        "times": entry.times,
        "since": iso_ms(entry.since_ms or entry.at_ms),
        "who": entry.who,
        "action": entry.action,
        "target": entry.target,
        "before": access.audited(entry.action, entry.before),
        "after": access.audited(entry.action, entry.after),
    }


def action_view(stored: StoredAction, access: ContentAccess) -> dict[str, Any]:
    """`JobActionView`."""
    action, progress = stored.action, stored.progress
    return {
        "id": action.id,
        "action": str(action.kind),
        "filter": None if action.filter is None else _filter_view(action.filter, access),
        "ids_count": stored.ids_count,
        "priority": action.priority,
        "rate_per_s": action.rate_per_s,
        "stop_at_failure_share": action.stop_at_failure_share,
        "state": str(progress.state),
        "matched": progress.matched,
        "looked_at": progress.looked_at,
        "done": progress.done,
        "refused": progress.refused,
        "failed_again": None if action.stop_at_failure_share is None else progress.failed_again,
        "by": action.by,
        "created_at": iso_ms(action.created_at_ms),
        "finished_at": iso_ms(progress.finished_at_ms) if progress.finished_at_ms else None,
        "message": progress.message,
    }


def _filter_view(wanted: JobFilter, access: ContentAccess) -> dict[str, Any]:
    given = access.filter(wanted.document())
    instants = ("created_after", "created_before", "finished_after", "finished_before")
    plain = (
        "state",
        "name",
        "tag",
        "batch",
        "worker",
        "q",
        "cause",
        "text",
        "failure_group",
        "matcher",
        "min_attempt",
    )
    return {
        **{field: given.get(field) for field in plain},
        **{field: iso_ms(given[f"{field}_ms"]) if f"{field}_ms" in given else None for field in instants},
        **{
            field: given[f"{field}_ms"] / 1000 if f"{field}_ms" in given else None
            for field in ("min_duration", "max_duration")
        },
    }
