"""Every problem `code`, with its statuses, its cause, and what a caller should do.

This table generates the enum in openapi/jqmaster.yaml and docs/errors.md. A test compares it with every error that the
code raises.
"""

from dataclasses import dataclass
from typing import Final

from jqmaster.domain.job import JobState


@dataclass(frozen=True, slots=True)
class ProblemCode:
    """One code. `statuses` are the HTTP statuses that it can have."""

    code: str
    statuses: tuple[int, ...]
    when: str
    remedy: str


_FIX: Final = "Correct the request."
_BUG_OR_LIBRARY: Final = "Check the library that encodes the body."
_READ: Final = "Read the object again before you decide."
_LATER: Final = "Repeat after `Retry-After`."
_NOTHING: Final = "Do nothing: the object is already as requested, or can no longer be."
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
                "Check the client, and any proxy between."),
    ProblemCode("unauthorized", (401,), "The request has no valid credential.",
                "Send `Authorization: Bearer TOKEN`, or log in."),
    ProblemCode("login_failed", (401,), "The user name or password is wrong.", "Try again with the correct ones."),
    ProblemCode("too_many_previews", (429,), "The caller requested too many previews recently.", _LATER),
    ProblemCode("too_many_registrations", (429,), "Too many of the caller's registrations failed recently.", _LATER),
    ProblemCode("wrong_password", (403,), "The current password is wrong.", "Try again with the correct one."),
    ProblemCode("not_a_user", (403,), "The caller logged in with a token, so there is no password to change.",
                "Log in as a user."),
    ProblemCode("forbidden", (403,), "The credential lacks the scope.", "Use a token with the required scope."),
    ProblemCode("name_forbidden", (403,), "The token may not push or run jobs of this name.",
                "Use an unrestricted token, or another name."),
    ProblemCode("admin_only", (403,), "Only admins may change the setting.",
                "Use a token or user with the scope `admin`."),
    ProblemCode("content_hidden", (403,), "The caller may not see job content, or that part of it is redacted.",
                "Filter by other fields, or ask an admin."),
    ProblemCode("local_only", (403,), "Without tokens and users, the master serves only its own machine.",
                "Create a token."),
    ProblemCode("cross_site", (403,), "A page of another site sent the request.", "Call from the master's own origin."),
    ProblemCode("csrf", (403,), "`X-CSRF-Token` does not match the session.",
                "Read the token from `GET /api/session`."),
    ProblemCode("not_found", (404,), "The route or object does not exist, or the caller may not see it.",
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
    ProblemCode("invalid", (422,), "The request is not valid. `errors` names each field and what is wrong with it.",
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
                "Use that job, or push again when it has ended. `on_conflict` decides whether pushes are refused."),
    ProblemCode("invalid_argument", (422,), "The argument does not fit the schema that workers told of the name.",
                "Correct what `errors` names. `check_arguments` decides whether such jobs are refused."),
    ProblemCode("unserved_name", (422,), "No worker has ever served the name.",
                "Check the name, or start a worker for it first."),
    ProblemCode("conflict", (409,), "The current state does not allow the request.", _READ),
    *(
        ProblemCode(f"job_{state}", (409,), f"The request does not apply to a job that is {state}.", _READ)
        for state in JobState
    ),
    ProblemCode("backlog_full", (429,), "A constraint allows no more waiting jobs.", _LATER),
    ProblemCode("unknown_action", (404,), "No bulk action has this ID.",
                "Check the ID; actions are kept for some days."),
    ProblemCode("action_over", (409,), "The bulk action has ended.", _NOTHING),
    ProblemCode("too_many_actions", (429,), "Too many bulk actions are running.",
                "Wait for one to end, or cancel one."),
    # Workers
    ProblemCode("unknown_worker", (404,), "The worker is not registered, or is no longer registered.",
                "Stop the jobs without reporting them, and register again."),
    ProblemCode("other_store", (421,), "The request's `JQ-Store` names another store than this master's.",
                "Ask another master. This address belongs to a master of another store."),
    ProblemCode("foreign_worker", (403,), "The worker was registered with another token.",
                "Use that token. A worker whose token was replaced sends a heartbeat with `proof`."),
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
    ProblemCode("poll_replaced", (429,), "The same worker made a later call for jobs.", "Make one call at a time."),
    # Constraints, settings, masters
    ProblemCode("unknown_constraint", (404,), "No constraint has this name.", "Check the name."),
    ProblemCode(
        "unknown_key_value",
        (404,),
        "No override and no unfinished job has the key value with this `value_id`.",
        "Give `value` or `job_id` instead.",
    ),
    ProblemCode("constraint_exists", (412,), "`If-None-Match: *` was sent and the constraint exists.", _READ),
    ProblemCode("precondition_failed", (412,), "The constraint or definition does not match `If-Match`.", _READ),
    ProblemCode("too_many_constraints", (409,), "No more constraints can be created.",
                "Delete some, or use `key` for one limit per value."),
    ProblemCode("unknown_definition", (404,), "No definition has this name.", "Check the name."),
    ProblemCode("definition_exists", (412,), "`If-None-Match: *` was sent and the definition exists.", _READ),
    ProblemCode("too_many_definitions", (409,), "There are `max_definitions` definitions.",
                "Delete some, or raise the setting."),
    ProblemCode("started_by_events", (409,), "The definition has no schedule: events start it.",
                "Send an event, or replay one."),
    ProblemCode("unknown_event", (404,), "No event with this ID is kept.", "Check the ID. Only the newest are kept."),
    ProblemCode("payload_too_large", (413,), "The payload of an event is larger than `max_event_bytes`.",
                "Send an ID and keep the data in your own store."),
    ProblemCode("too_many_matches", (409,), "More than 500 definitions match the event.",
                "Give them narrower patterns of `event_type`."),
    ProblemCode("too_many_sources", (409,), "As many sources of declarations are known as may be.",
                "Give --source the name of one that is known."),
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
    ProblemCode("rate_limited", (429,), "The caller sends too many requests.", _LATER),
    ProblemCode("too_many_logins", (429,), "There were too many failed logins.", _LATER),
    ProblemCode("overloaded", (503,), "The master has reached a limit. The request had no effect.", _LATER),
    ProblemCode("too_many_streams", (503,), "Too many dashboards are connected to this master.", _LATER),
    ProblemCode("store_unavailable", (503,),
                "The store is unreachable, loading, read-only or full. The request had no effect.", _LATER),
    ProblemCode("store_full", (503,), "The store has no room for new jobs. The request had no effect.",
                "Free memory. Running jobs can still end."),
    ProblemCode("store_unfit", (503,), "The store cannot give what is configured. The request had no effect.",
                "Run `jqmaster doctor`."),
    ProblemCode("durability_unavailable", (503,),
                "The store cannot give the requested durability. The request had no effect.",
                "Repeat later, or request a lower level."),
    ProblemCode("outcome_unknown", (503,), "The request may have taken effect.",
                "Repeat the same request with the same ID. This is safe."),
    ProblemCode("internal", (500,),
                "The master has an internal error. `detail` holds an incident number, which is also in its log.",
                "Report it."),
    ProblemCode("damaged", (500,), "A stored record is damaged.", "Run `jqmaster fsck`."),
)  # fmt: skip
