"""Convert objects of the store to lines. A line has the document with which the API creates the object, and
additional facts."""

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from jqmaster.api.encoding.answers import RawMsgpack, encode
from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.domain.batches.batch import Batch, BatchCallback, CallbackState
from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.definitions.event_trigger import EventTrigger
from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.jobs.job import DEFAULT_RETRY, STORED_TERMS, Job, JobSpec
from jqmaster.domain.jobs.unique import Unique, UniqueScope
from jqmaster.domain.notices.notice import Channel, Destination
from jqmaster.domain.workers.slot_rule import SlotRule
from jqmaster.errors import JqmasterError
from jqmaster.service.calendars import editor as calendar_documents
from jqmaster.service.definitions import documents as definition_documents
from jqmaster.service.notices import documents as notice_documents
from jqmaster.service.targets import documents as target_documents
from jqmaster.store.calendars.documents import StoredCalendar
from jqmaster.store.identity.credentials import StoredToken, StoredUser
from jqmaster.store.notices.documents import StoredNotice
from jqmaster.store.targets.documents import StoredTarget

# A document and its facts. The exported line leaves out facts with the value None.
Parts = tuple[dict[str, Any], dict[str, Any]]
# Terms of a job that are not copied unchanged: the job may lack them, or the document has them in a different
# form.
_APART: Final = frozenset({"argument", "delay_ms", "expires_ms"})


def of_job(job: Job, *, holds_key: bool, over: list[str]) -> Parts:
    """Return the parts of a job.
    * `holds_key`: whether the job holds its uniqueness key.
    * `over`: its predecessors that are over or gone.
    """
    argument, packed = _argument(job.argument)
    document = {**_terms(job), "argument": argument}
    due_at = iso_or_none(job.due_at_ms)
    is_debounced = holds_key and job.unique is not None and job.unique.is_debounce
    if job.due_at_ms and not is_debounced:
        document["run_at"] = due_at
    if job.expires_at_ms:
        document["expires_at"] = iso_ms(job.expires_at_ms)
    if holds_key and job.unique is not None:
        document["debounce" if is_debounced else "unique"] = _key(job.unique)
    if job.batch is not None:
        document["batch"] = job.batch
    if job.notify is not None:
        notify = job.notify
        document["notify"] = {"url": notify.url, "on": list(notify.on), "with_result": notify.with_result}
    if job.after is not None:
        document["after"] = {"jobs": list(job.after.jobs), "when": str(job.after.when)}
    return document, {
        "state": str(job.state),
        "attempt": job.attempt,
        "failures": job.failures,
        "losses": job.losses,
        "created_at": iso_ms(job.created_at_ms),
        "due_at": due_at if is_debounced else None,
        "argument_packed": packed,
        "definition": job.origin and job.origin.definition,
        "definition_due_at": job.origin and iso_ms(job.origin.due_at_ms),
        "callback_of": job.callback_of and job.callback_of.batch,
        "callback": job.callback_of and job.callback_of.callback,
        "over": over or None,
    }


def of_batch(batch: Batch, *, is_sealed: bool) -> Parts:
    spec, packed = batch.spec, {}
    document: dict[str, Any] = {
        "description": spec.description,
        "tags": list(spec.tags),
        "batch": spec.parent,
    }
    if batch.expires_at_ms:
        document["expires_at"] = iso_ms(batch.expires_at_ms)
    for callback in BatchCallback:
        if callback not in spec.callbacks:
            continue
        job = spec.callbacks[callback]
        argument, text = _argument(job.argument)
        document[str(callback)] = {**_terms(job), "argument": argument}
        if job.delay_ms is not None:
            document[str(callback)]["delay"] = job.delay_ms / 1000
        if text is not None:
            packed[str(callback)] = text
    return document, {
        "is_sealed": is_sealed,
        "owner": spec.owner,
        "created_at": iso_ms(batch.created_at_ms),
        "ended": {str(state): count for state, count in batch.ended.items() if count}
        | ({"deleted": batch.deleted} if batch.deleted else {}),
        "started": [str(one) for one, state in batch.callbacks.items() if state is not CallbackState.WAITING],
        "arguments_packed": packed or None,
    }


def of_calendar(stored: StoredCalendar) -> Parts:
    """Return the parts of a calendar. They include the stored holidays, because another release of the library
    may compute different holidays."""
    calendar, until = stored.calendar, stored.calendar.covers_until
    document = calendar_documents.describe(calendar)
    facts = {
        "holidays": calendar_documents.days_of(calendar),
        "covers_until": until.isoformat() if until else None,
    }
    return document, facts


def of_definition(definition: Definition) -> Parts:
    document = definition_documents.describe(definition)
    argument, packed = _argument(definition.job.argument)
    document["job"] |= {"argument": argument, "headers": dict(definition.job.headers)}
    trigger = definition.trigger
    if isinstance(trigger, EventTrigger) and trigger.argument is not None:
        document["argument"] = trigger.argument.document
    return document, {"argument_packed": packed}


def of_notice(stored: StoredNotice, *, has_secrets: bool) -> Parts:
    """Return the parts of a notice. Without secrets, a destination with a credential as its address has the form
    of the API."""
    document = notice_documents.describe(stored.notice)
    if has_secrets:
        document["to"] = [_destination(one) for one in stored.notice.to]
    return document, {}


def of_target(stored: StoredTarget, *, has_secrets: bool) -> Parts:
    """Return the parts of a target. Without secrets, the parts have the form of the API."""
    document = target_documents.describe(stored.target)
    if has_secrets:
        target = stored.target
        document |= {"headers": dict(target.headers), "secret": target.secret.present}
        document |= {"url": target.url} if target.url else {}
    return document, {}


def of_fireworq_queue(queue: FireworqQueue) -> Parts:
    return {part: value for part, value in asdict(queue).items() if part != "name"}, {}


def of_slot_rule(rule: SlotRule) -> Parts:
    return {
        "node_id": rule.node_id,
        "labels": dict(rule.labels),
        "max_jobs": rule.max_jobs,
        "set_by": rule.set_by,
        "set_at": iso_ms(rule.set_at_ms),
    }, {}


def of_user(user: StoredUser, *, has_secrets: bool) -> Parts:
    document = {
        "role": str(user.role),
        **({"namespaces": {name: str(role) for name, role in user.roles.items()}} if user.roles else {}),
        "is_disabled": user.is_disabled,
        "created_at": iso_ms(user.created_at_ms),
    }
    return document | ({"password_hash": user.password} if has_secrets else {}), {}


def of_token(token: StoredToken, *, has_secrets: bool) -> Parts:
    document = {
        "label": token.label,
        "scopes": sorted(token.scopes),
        "names": list(token.names),
        **({"namespaces": list(token.namespaces)} if token.namespaces else {}),
        "created_at": iso_ms(token.created_at_ms),
        "created_by": token.created_by,
        "expires_at": iso_or_none(token.expires_at_ms),
        "lineage": token.lineage,
    }
    return document | ({"sha256": token.digest.hex()} if has_secrets else {}), {}


def _terms(job: Job | JobSpec) -> dict[str, Any]:
    """Return the terms of a job, except its argument."""
    terms = {term: getattr(job, term) for term in STORED_TERMS if term not in _APART}
    terms["timeout"] = terms.pop("timeout_ms") / 1000
    terms["retry"] = asdict(job.retry) if job.retry != DEFAULT_RETRY else None
    terms["tags"], terms["headers"] = list(job.tags), dict(job.headers)
    if isinstance(job, JobSpec) and job.expires_ms is not None:
        terms["expires_s"] = job.expires_ms / 1000
    return {term: value for term, value in terms.items() if value not in (None, [], {})}


def _argument(argument: bytes) -> tuple[RawMsgpack | None, str | None]:
    """Return the argument for the document. If JSON cannot carry it unchanged, return it as base64 text."""
    raw = RawMsgpack(argument)
    try:
        if json_to_msgpack(encode(raw, Encoding.JSON)) == argument:
            return raw, None
    except (JqmasterError, ValueError, TypeError, RecursionError):
        return None, base64.b64encode(argument).decode()
    return raw, base64.b64encode(argument).decode()


def _key(unique: Unique) -> Mapping[str, Any]:
    if unique.is_debounce:
        bound = {"max_s": unique.max_ms / 1000} if unique.max_ms else {}
        return {"key": unique.key, "wait_s": unique.wait_ms / 1000, **bound}
    window = {"ttl_s": unique.ttl_ms / 1000} if unique.scope is UniqueScope.WINDOW else {}
    return {"key": unique.key, "scope": str(unique.scope), "on_conflict": str(unique.on_conflict), **window}


def _destination(one: Destination) -> dict[str, Any]:
    if one.channel is Channel.MAIL:
        return {"mail": list(one.addresses)}
    return {str(one.channel): one.addresses[0], **({"secret": one.secret} if one.secret else {})}
