"""Every problem `code`, with its statuses, its cause, and what a caller should do.

docs/errors.md is generated from this table. So are the enum and the list `x-had-no-effect` in
openapi/jqmaster.yaml, and through them the codes in both SDKs. A test compares the table with every error that
the code raises."""

from dataclasses import dataclass
from typing import Final

from jqmaster.domain.jobs.job import JobState


@dataclass(frozen=True, slots=True)
class ProblemCode:
    """One code.

    * `statuses`: the HTTP statuses that it can have.
    * `had_no_effect`: whether the code proves that the request had no effect. If not, a client must treat the
      outcome as unknown. None for codes with a status other than 429 or 503.
    """

    code: str
    statuses: tuple[int, ...]
    when: str
    remedy: str
    had_no_effect: bool | None = None


_FIX: Final = "Correct the request."
_BUG_OR_LIBRARY: Final = "Check the library that encodes the body."
_READ: Final = "Read the object again before you decide."
_LATER: Final = "Repeat after `Retry-After`."
_NOTHING: Final = "Do nothing: the object is already in the requested state, or can no longer reach it."
_CHECK_ID: Final = "Check the ID; a finished job is removed after its retention."

CODES: Final = (
    # Reading the request
    ProblemCode("unparsable", (400,), "The request or its body cannot be parsed.", _BUG_OR_LIBRARY),
    ProblemCode("empty_body", (400,), "The route requires a body, and the request has none.", "Send the body."),
    ProblemCode("truncated", (400,), "The body ends too early.", "Check `Content-Length` and the connection."),
    ProblemCode("trailing_bytes", (400,), "Bytes follow the value. Often the body is JSON labeled as MessagePack.",
                "Send one value, with its own `Content-Type`."),
    ProblemCode("duplicate_key", (400,), "A map has the same key twice.", _FIX),
    ProblemCode("key_not_str", (400, 422), "A map key is not text. MessagePack `bin` is not text.",
                "Encode keys as MessagePack `str`."),
    ProblemCode("too_deep", (400, 422), "The body is nested too deeply.",
                "Flatten the argument, or raise `max_nesting`."),
    ProblemCode("bad_host", (400,), "The `Host` header names another server.", "Add the name to `allowed_hosts`."),
    ProblemCode("bad_request_line", (400,), "The first line of the request is not `METHOD TARGET HTTP/1.1`.",
                "Check the client, and any proxy between it and the master."),
    ProblemCode("unauthorized", (401,), "The request has no valid credential.",
                "Send `Authorization: Bearer TOKEN`, or log in."),
    ProblemCode("login_failed", (401,), "The user name or password is wrong.", "Try again with the correct ones."),
    ProblemCode("login_expired", (401,), (
        "The login was begun in another browser, took too long, or was "
        "already completed."
    ),
                "Log in again, from the login page."),
    ProblemCode("login_denied", (401,), "The login provider refused the login. The master logs the provider's "
                "reason.", "Try again, or ask the operators of the provider."),
    ProblemCode("id_token_invalid", (401,), "The ID token of the provider is not valid. The master logs why.",
                "Compare `oidc_issuer`, `oidc_client_id` and the clocks."),
    ProblemCode("no_role", (403,), "The person has no role here, because none of the person's groups has one.",
                "Add the person to a group of `group_roles`, or set `default_role`."),
    ProblemCode("no_login_name", (403,), "The login provider does not give the person a usable name.",
                "Set `oidc_user_claim` to a claim that everybody has."),
    ProblemCode("no_login_provider", (404,), "No login provider is configured.", "Set `oidc_issuer`."),
    ProblemCode("provider_unavailable", (503,), "The login provider does not answer, or its answer cannot be used.",
                "Try again, or log in with a token. The master logs the reason.", had_no_effect=False),
    ProblemCode("too_many_previews", (429,), "The caller requested too many previews recently.", _LATER,
                had_no_effect=True),
    ProblemCode("too_many_agent_calls", (429,), "Agents of the caller called too many tools recently.", _LATER,
                had_no_effect=True),
    ProblemCode("agents_off", (404,), "The master has no tools for agents, because its extra `mcp` is not installed.",
                "Install `jqmaster[mcp]` where masters run, and restart them."),
    ProblemCode("too_many_registrations", (429,), "Too many of the caller's registrations failed recently.", _LATER,
                had_no_effect=True),
    ProblemCode("wrong_password", (403,), "The current password is wrong.", "Try again with the correct one."),
    ProblemCode("not_a_user", (403,), "The caller logged in with a token, so there is no password to change.",
                "Log in as a user."),
    ProblemCode("forbidden", (403,), "The credential lacks the scope.", "Use a token with the required scope."),
    ProblemCode("name_forbidden", (403,), "The token may not push or run jobs of this name.",
                "Use an unrestricted token, or another name."),
    ProblemCode("admin_only", (403,), "Only admins may change the setting.",
                "Use a token or user with the scope `admin`."),
    ProblemCode("content_hidden", (403,), "The caller may not see job content, or this part of the content is "
                "redacted.", "Filter by other fields, or ask an admin."),
    ProblemCode("local_only", (403,), (
        "As long as there are no tokens and no users, the master serves only "
        "callers on its own machine."
    ),
                "Create a token."),
    ProblemCode("cross_site", (403,), "A page of another site sent the request.", "Call from the master's own origin."),
    ProblemCode("csrf", (403,), "`X-CSRF-Token` does not match the session.",
                "Read the token from `GET /api/session`."),
    ProblemCode("not_found", (404,), "The path or the object does not exist, or the caller may not see it.",
                "Check the address and the ID."),
    ProblemCode("method_not_allowed", (405,), "The route has no such method.", "Use a method that `Allow` lists."),
    ProblemCode("not_acceptable", (406,), "`Accept` names no type that the route answers.",
                "Accept `application/json` or `application/msgpack`."),
    ProblemCode("receipt_deadline", (408,), "The request took too long to arrive.", "Repeat it."),
    ProblemCode("too_large", (413,), "A part of the request exceeds its limit.", "Send less."),
    ProblemCode("body_too_large", (413,), "The body exceeds `max_body_bytes`.", "Send several requests."),
    ProblemCode("too_many_nodes", (413,), "The body, or the argument, holds too many values.",
                "Send less, or store the data elsewhere and pass its address."),
    ProblemCode("too_many_items", (413,), "The list has too many members.", "Send several requests."),
    ProblemCode("argument_too_large", (413,), "The argument exceeds `max_argument_bytes`.",
                "Keep the data in your own store and pass its ID."),
    ProblemCode("result_too_large", (413,), "The result exceeds `max_result_bytes`.",
                "Store it elsewhere and return its address. Report this attempt as failed."),
    ProblemCode("error_too_large", (413,), "The error exceeds `max_result_bytes`.", "Report a shorter error."),
    ProblemCode("target_too_long", (414,), "The path and query are too long.", "Shorten them."),
    ProblemCode("unsupported_media_type", (415,),
                "The body is neither MessagePack nor JSON, has no `Content-Type`, or is compressed.",
                "Send `Content-Type: application/json` or `application/msgpack`."),
    ProblemCode("unsupported_transfer_encoding", (415,), "The request has a `Transfer-Encoding` other than `chunked`.",
                "Send `Content-Length`, or `chunked` alone."),
    ProblemCode("head_too_large", (431,), "The header fields are too large.", "Send fewer."),
    ProblemCode("too_many_headers", (431,), "There are too many header fields.", "Send fewer."),
    ProblemCode("unknown_method", (501,), "The method is not an HTTP method.", _FIX),
    ProblemCode("http_version_not_supported", (505,), "The request is not HTTP/1.1 or HTTP/1.0.", "Use HTTP/1.1."),
    # Values
    ProblemCode("invalid", (422,), (
        "The request is not valid. `errors` names each invalid field and its "
        "fault."
    ),
                "Correct the fields."),
    ProblemCode("not_an_array", (422,), "The body of a batch of CloudEvents is not an array.", "Send an array."),
    ProblemCode("not_a_map", (422,), "The body is not a map.", "Send a map (in JSON: an object)."),
    ProblemCode("bad_timestamp", (422,), "A MessagePack timestamp is malformed or out of range.", _BUG_OR_LIBRARY),
    ProblemCode("bad_ext", (422,), "A JSON `$ext` is malformed.", 'Send `{"$ext": [code, base64]}`.'),
    ProblemCode("bad_base64", (422,), "A JSON `$bin` or `$ext` is not base64.",
                "Encode it in standard base64 with padding."),
    ProblemCode("integer_out_of_range", (422,), "An integer needs more than 64 bits.", "Send it as text."),
    ProblemCode("number_out_of_range", (422,), "A number exceeds the range of a double.", "Send it as text."),
    ProblemCode("invalid_cursor", (422,), "The cursor is malformed or belongs to other filters.",
                "Start again without a cursor."),
    # Jobs
    ProblemCode("unknown_job", (404,), "No job has this ID, or the token may not see it.", _CHECK_ID),
    ProblemCode("unknown_failure_group", (404,), "No group of failures has this ID.", "List the failures again."),
    ProblemCode("unknown_name", (404,), "No job of this name was seen recently.", "Check the name."),
    ProblemCode("id_taken", (409,), "A different job with this ID exists.",
                "Use a new ID for a new job; repeat an old one unchanged."),
    ProblemCode("idempotency_key_reused", (409,), "The idempotency key was used for another request.",
                "Use a new key for a new request."),
    ProblemCode("not_unique", (409,), "Another job holds the uniqueness key; `job_id` names it.",
                "Use that job, or push again after it has ended. The field `on_conflict` of a push decides "
                "whether the push is refused."),
    ProblemCode("offer_under_way", (409,), (
        "The job to replace (`job_id`) has been offered to a worker. The "
        "master does not know yet whether the job starts with its former "
        "content."
    ),
                "Repeat the push after `Retry-After`. It then replaces the job, or is refused because the job has "
                "started."),
    ProblemCode("invalid_argument", (422,), "The argument does not fit the schema registered for the job name.",
                "Correct what `errors` names. `check_arguments` decides whether such jobs are refused."),
    ProblemCode("unchecked_argument", (422,),
                "Checking the argument against the schema registered for the job name took too much time or memory.",
                "Push a smaller argument, or have operators remove the contract of the name."),
    ProblemCode("unserved_name", (422,), "No worker has ever served the name.",
                "Check the name, or start a worker for it first."),
    ProblemCode("conflict", (409,), "The current state does not allow the request.", _READ),
    *(
        ProblemCode(f"job_{state}", (409,), f"The request does not apply to a job that is {state}.", _READ)
        for state in JobState
    ),
    ProblemCode("backlog_full", (429,), "A constraint allows no more waiting jobs.", _LATER, had_no_effect=True),
    ProblemCode("retried_before", (409,), (
        "The newest attempt of the job is not the `attempt` that the "
        "request names."
    ),
                "Read the job again. If an earlier request has already retried it, do nothing."),
    ProblemCode("value_erased", (409,), "Somebody erased a value that the job needs to run.",
                "Enqueue a new job with the value."),
    ProblemCode("log_open", (409,), "The job ended less than a minute ago, so its worker may still send lines.",
                "Erase the log after the time that the answer names."),
    ProblemCode("unknown_action", (404,), "No bulk action has this ID.",
                "Check the ID; actions are kept for some days."),
    ProblemCode("more_than_at_most", (409,), (
        "The number of jobs that match the bulk action now exceeds "
        "`at_most`."
    ),
                "Repeat the dry run, and decide with the new count."),
    ProblemCode("action_over", (409,), "The bulk action has ended.", _NOTHING),
    ProblemCode("too_many_actions", (429,), "Too many bulk actions are running.",
                "Wait for one to end, or cancel one.", had_no_effect=True),
    # Workers
    ProblemCode("unknown_contract", (404,), "No contract of this job name is stored.", _NOTHING),
    ProblemCode("unknown_slot_rule", (404,), "No slots are kept under this ID.",
                "List the slot rules again."),
    ProblemCode("unknown_worker", (404,), "The worker is not registered, or is no longer registered.",
                "Stop the jobs without reporting them, and register again."),
    ProblemCode("other_store", (421,), "The header `JQ-Store` names a different store than that of this master.",
                "Use another address. This one belongs to a master of another store."),
    ProblemCode("foreign_worker", (403,), "The worker was registered with another token.",
                "Use that token. If the worker's token was replaced, send a heartbeat with `proof`."),
    ProblemCode("address_refused", (422,), "The worker's URL is malformed, or masters must not call it.",
                "Register an address that masters may reach."),
    ProblemCode("address_unresolved", (422,), "The host name in the worker's URL cannot be resolved.",
                "Check the name; try again after a random wait."),
    ProblemCode("address_unverified", (422,), "The server at the address did not prove that it is the worker.",
                "Serve `POST /challenge` at this URL; try again after a random wait."),
    ProblemCode("worker_detached", (409,), "The worker was detached.", "Send a heartbeat. Its answer says what to do."),
    ProblemCode("not_pulling", (409,), "The worker registered an address, so jobs are pushed to it.",
                "Do not call `claim`, or register with `url: null`."),
    ProblemCode("no_such_poll", (409,), "The poll to withdraw never arrived or is not the newest.", _NOTHING),
    ProblemCode("poll_replaced", (429,), "The same worker made a later call for jobs.", "Make one call at a time.",
                had_no_effect=True),
    # Challenges
    ProblemCode("stale_token", (409,), "The worker does not hold the job under this token.",
                "Stop the job: another attempt runs, or the job is over."),
    ProblemCode("too_many_parts", (413,), "An attempt has more partial results than `max_parts` or `max_parts_bytes`.",
                "Keep further data in your own store, or send fewer and larger partial results."),
    ProblemCode("challenge_answered", (409,), "The callbacks of the attempt have already come.",
                "Enqueue another job for a further step."),
    ProblemCode("no_public_url", (409,), "The master does not know the address at which outside systems reach it.",
                "Set `public_url`."),
    ProblemCode("meta_too_large", (413,), "The note of a challenge is larger than 4 KiB.",
                "Keep the data in your own store."),
    ProblemCode("form_too_large", (413,), "The form of a challenge is larger than 16 KiB.",
                "Shorten its texts, or link to a page of your own."),
    ProblemCode("no_form", (404,), "The challenge has no form: another system answers it, and not a person.",
                "Post the callback to this address."),
    ProblemCode("unknown_challenge", (404,), "No challenge has this request ID.",
                "Check the address. A job and its challenges are removed after the job's retention."),
    ProblemCode("callback_conflict", (409,), "The challenge was answered with another callback.",
                "Do nothing: the first callback counts."),
    ProblemCode("challenge_over", (410,), "The attempt that waited for the callback is over.",
                "Do nothing: a callback no longer has any effect."),
    ProblemCode("bad_signature", (403,), "The signature of the callback is missing or wrong.",
                "Sign the body with the secret of the challenge."),
    ProblemCode("too_many_callbacks", (429,), "The caller's address requested too many unknown request IDs.", _LATER,
                had_no_effect=True),
    # Constraints, settings, masters
    ProblemCode("unknown_constraint", (404,), "No constraint has this name.", "Check the name."),
    ProblemCode(
        "unknown_key_value",
        (404,),
        "No override and no unfinished job has the key value with this `value_id`.",
        "Give `value` or `job_id` instead.",
    ),
    ProblemCode("constraint_exists", (412,), "`If-None-Match: *` was sent and the constraint exists.", _READ),
    ProblemCode("precondition_failed", (412,), "The constraint, definition or calendar does not match `If-Match`.",
                _READ),
    ProblemCode("too_many_constraints", (409,), "No more constraints can be created.",
                "Delete some, or use `key` for one limit per value."),
    ProblemCode("unknown_definition", (404,), "No definition has this name.", "Check the name."),
    ProblemCode("definition_exists", (412,), "`If-None-Match: *` was sent and the definition exists.", _READ),
    ProblemCode("too_many_definitions", (409,), "There are `max_definitions` definitions.",
                "Delete some, or raise the setting."),
    ProblemCode("unknown_calendar", (404,), "No calendar has this name.", "Check the name."),
    ProblemCode("calendar_exists", (412,), "`If-None-Match: *` was sent and the calendar exists.", _READ),
    ProblemCode("calendar_in_use", (409,), "Definitions use the calendar, so it cannot be deleted.",
                "Set `days` to another calendar, or remove it, in the definitions that the answer names."),
    ProblemCode("too_many_calendars", (409,), "There are 500 calendars.", "Delete some that no definition uses."),
    ProblemCode("calendars_not_installed", (409,),
                "The master cannot look up countries or read iCalendar texts, because its extra `calendars` is not "
                "installed.",
                "Install `jqmaster[calendars]` where masters run, or give the days as `dates`. Stored calendars work "
                "without it."),
    ProblemCode("started_by_events", (409,), "The definition has no schedule: events start it.",
                "Send an event, or replay one."),
    ProblemCode("unknown_batch", (404, 422), "No batch has this ID, or the batch is no longer kept.",
                "Check the ID. Complete batches are removed after `batch_retention_s`."),
    ProblemCode("batch_over", (409,), "The batch is complete or canceled: it takes no new members.",
                "Add jobs before the batch is sealed, or from one of its own jobs."),
    ProblemCode("unknown_predecessor", (422,), "No job has an ID that `after` names.",
                "Check the ID. Jobs of one bulk may name each other."),
    ProblemCode("predecessor_over", (409,), "A job that `after` names has ended, and did not succeed.",
                "Retry that job first, or push without it."),
    ProblemCode("already_expired", (422,), "By the clock of the store, `expires_at` had passed when the push "
                "arrived.", "Give a later time, or `expires_s`, which counts from the push."),
    ProblemCode("batch_complete", (409,), "The batch is complete.", _NOTHING),
    ProblemCode("unknown_delivery", (404,), "The job has no such delivery, or the delivery is no longer kept.",
                "List the deliveries of the job."),
    ProblemCode("unknown_notice", (404,), "No notice has this name.", "Check the name."),
    ProblemCode("notice_exists", (412,), "`If-None-Match: *` was sent and the notice exists.", _READ),
    ProblemCode("too_many_notices", (409,), "There are 100 notices.",
                "Delete some, or merge several into one with a wider matcher."),
    ProblemCode("unknown_target", (404,), "No target has this name.", "Check the name."),
    ProblemCode("target_exists", (412,), "`If-None-Match: *` was sent and the target exists.", _READ),
    ProblemCode("too_many_targets", (409,), "There are 500 targets.",
                "Delete some, or merge several into one: a target may have 100 names, and the placeholder `{name}` "
                "in its URL."),
    ProblemCode("target_name_taken", (409,), "Another target lists one of the names.",
                "Remove the name from that target first, or use a pattern: a pattern does not take names "
                "that other targets list."),
    ProblemCode("unknown_namespace", (404,), "No namespace has this name, or the token is not valid in it.",
                "Check the token, the name, and the path after `/ns/`."),
    ProblemCode("namespace_starting", (503,), "The master is opening the namespace.", _LATER, had_no_effect=True),
    ProblemCode("namespace_closed", (503,), "The namespace is closed.", "Ask an admin to open it.", had_no_effect=True),
    ProblemCode("namespace_moving", (503,), "The namespace is being moved to another store.", _LATER,
                had_no_effect=True),
    ProblemCode("move_under_way", (409,), "The namespace is already being moved.",
                "Wait until the move has ended, or abort it."),
    ProblemCode("not_moving", (409,), "There is no running move to abort.", _NOTHING),
    ProblemCode("move_record_damaged", (409,), "The record of the move cannot be read, so no master can end the "
                "move.",
                "Repeat with `force=true`. The request then finds the store with the data, and closes the "
                "namespace in that store."),
    ProblemCode("move_refused", (409,), "The namespace cannot be moved to that store or node. `detail` says why.",
                "Remove the cause, or choose another store or node."),
    ProblemCode("not_on_cluster", (409,), "The store of the namespace is not a Cluster, so it has no other node.",
                "Move the namespace to another store."),
    ProblemCode("namespace_faulted", (503,), "The namespace has failed on this master. Other namespaces work.",
                "Read the reason at `/ns/NAME/readyz`, or in the log of the master.", had_no_effect=True),
    ProblemCode("namespace_full", (429,), "The namespace has reached its quota of waiting jobs, of their bytes, of "
                "workers or of streams.", "Repeat after `Retry-After`, or raise the quota of the namespace.",
                had_no_effect=True),
    ProblemCode("namespace_rate", (429,), (
        "The number of jobs that were pushed in this second has reached "
        "the quota `pushes_per_s` of the "
        "namespace."
    ), _LATER, had_no_effect=True),
    ProblemCode("push_over_quota", (422,), "The push has more jobs than the quota `pushes_per_s` of the namespace "
                "allows in a second.", "Push the jobs in several requests, or raise the quota."),
    ProblemCode("argument_over_quota", (422,), "The argument exceeds the quota `argument_bytes` of the namespace.",
                "Keep the data in your own store and pass its ID, or raise the quota."),
    ProblemCode("namespace_exists", (412,), "`If-None-Match: *` was sent and the namespace exists.", _READ),
    ProblemCode("namespace_open", (409,), "The namespace is open, so it cannot be deleted.", "Close it first."),
    ProblemCode("namespace_not_empty", (409,), "The namespace has unfinished jobs, so it cannot be deleted.",
                "Let them end, or send `force=true`: the jobs then stay in the store."),
    ProblemCode("namespace_has_data", (409,), "A store already has data under the tag that the new namespace would "
                "get.",
                "Give this tag and the store in the request to take the data over, or give another tag to start "
                "without data."),
    ProblemCode("default_namespace", (409,), "The namespace `default` cannot be closed or deleted.", _NOTHING),
    ProblemCode("masters_too_old", (409,), "A master of an older release, which does not know namespaces, is alive.",
                "Upgrade all masters, then repeat."),
    ProblemCode("too_many_namespaces", (409,), "There are as many namespaces as `max_namespaces` allows.",
                "Delete some, or use one namespace for several purposes: give jobs different names, and use "
                "constraints with a key."),
    ProblemCode("namespace_tag_taken", (409,), "Another namespace has the tag.",
                "Give another tag, or omit it: the name is then the tag."),
    ProblemCode("too_many_fireworq", (409,), "The Fireworq gateway has its maximum number of queues or routings.",
                "Delete one that is not used."),
    ProblemCode("delivery_loop", (422,), "The request is itself the delivery of a job to a target.",
                "Correct the URL of the target: it must belong to your application, not to this service."),
    ProblemCode("unknown_incident", (404,), (
        "There is no such incident: the notice has no open incident "
        "with this key, or the timeline no longer has the incident with "
        "this ID."
    ), "Read the notice, or the list of incidents, again."),
    ProblemCode("mail_off", (422,), "The master has no mail server.", "Set `smtp_url` and `mail_from`."),
    ProblemCode("webhooks_off", (422,), "The master has no secret to sign webhooks with.",
                "Set `webhook_secrets`. `jqmaster webhooks secret` generates a secret."),
    ProblemCode("unknown_event", (404,), "No event with this ID is kept.", "Check the ID. Only the newest are kept."),
    ProblemCode("payload_too_large", (413,), "The payload of an event is larger than `max_event_bytes`.",
                "Send an ID and keep the data in your own store."),
    ProblemCode("too_many_matches", (409,), "More than 500 definitions match the event.",
                "Give them narrower patterns of `event_type`."),
    ProblemCode("too_many_sources", (409,), "No more sources of declarations can be added.",
                "Set --source to the name of an existing source."),
    ProblemCode("settings_changing", (409,), "Other callers keep changing the settings at the same time.",
                "Try again."),
    ProblemCode("not_leader", (409,), "The master to demote does not lead.", _READ),
    ProblemCode("no_other_master", (409,), "No other master could take over.", "Start another master first."),
    # Tokens and users
    ProblemCode("unknown_token", (404,), "No token has this ID.", "Check the ID."),
    ProblemCode("unknown_user", (404,), "No user has this name.", "Check the name."),
    ProblemCode("unknown_session", (404,), "None of the caller's logins has this ID.",
                "Read the list of logins again."),
    ProblemCode("no_session", (409,), "The caller has not logged in.", "Log in. A bearer token has no logins."),
    ProblemCode("user_exists", (409,), "The name is taken.", "Choose another name."),
    ProblemCode("token_expired", (409,), "The token has expired and cannot be rotated.", "Create a new token."),
    ProblemCode("too_many_tokens", (409,), "No more tokens can be created.", "Revoke some."),
    ProblemCode("too_many_users", (409,), "No more users can be created.", "Delete some."),
    ProblemCode("changed_meanwhile", (409,), "Another caller changed the object at the same time.", _READ),
    ProblemCode("first_must_be_admin", (409,), "The first user or token must have admin rights and must not expire.",
                "Create an admin first."),
    ProblemCode("last_admin", (409,), "The change would leave no administrator.",
                "Create another administrator first."),
    # Limits and the store
    ProblemCode("rate_limited", (429,), "The caller sends too many requests.", _LATER, had_no_effect=True),
    ProblemCode("too_many_logins", (429,), "There were too many failed logins.", _LATER, had_no_effect=True),
    ProblemCode("overloaded", (503,), (
        "The master has reached a limit, or other callers change the object "
        "so often that the request cannot "
        "complete."
    ), _LATER, had_no_effect=True),
    ProblemCode("too_many_streams", (503,), "Too many streams of this master are open.", _LATER, had_no_effect=True),
    ProblemCode("store_unavailable", (503,),
                "The store is unreachable, loading, read-only or full.", _LATER, had_no_effect=True),
    ProblemCode("store_full", (503,), "The store has no room for new jobs.",
                "Free memory. Running jobs can still end.", had_no_effect=True),
    ProblemCode("store_unfit", (503,), "The store lacks a property that the configuration requires.",
                "Run `jqmaster doctor`.", had_no_effect=True),
    ProblemCode("durability_unavailable", (503,),
                "The store does not provide the requested durability.",
                "Repeat later, or request a lower level.", had_no_effect=True),
    ProblemCode("outcome_unknown", (503,), "The master stopped or lost the store before it knew the outcome.",
                "Repeat the same request with the same ID. This is safe.", had_no_effect=False),
    ProblemCode("internal", (500,), "The master has an internal error. `detail` contains an incident number, which "
                "is also in the log of the master.", "Report it."),
    ProblemCode("damaged", (500,), "A stored record is damaged.", "Run `jqmaster fsck`."),
    ProblemCode("archive_unavailable", (503,), "The archive of job logs does not answer, or refuses the master.",
                _LATER, had_no_effect=False),
    ProblemCode("archive_damaged", (502,), "A log in the archive was changed after it was written.",
                "Restore the object named in `detail` from a backup, or skip its lines with `after`."),
)  # fmt: skip
