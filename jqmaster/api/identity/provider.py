"""Logins with an OpenID Connect provider over HTTP. Browsers open these routes as pages, so answers are redirects."""

import contextlib
from urllib.parse import parse_qs

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.identity.sessions import secret_of
from jqmaster.errors import JqmasterError, NotFoundError
from jqmaster.service.identity.namespace_identity import end_own_session
from jqmaster.service.identity.provider_logins import HOME, LedTo, ProviderLogins, Returned, place_below
from jqmaster.service.identity.sessions import PROVIDER_PREFIX


async def begin(call: Call) -> Reply:
    logins = _logins(call)
    page = call.query("page").get("page", HOME)
    try:
        own = call.session.digest if call.session and call.session.is_of_namespace else ""
        begun = await logins.begin(page, call.services.prefix, own_session=own)
    except JqmasterError as exc:
        return _to_login_page(logins, place_below(call.services.prefix), exc)
    return _redirect(begun.url, call.policy.cookie.set_login(begun.cookie))


async def finish(call: Call) -> Reply:
    logins, cookie = _logins(call), call.policy.cookie
    kept = cookie.login(call.fields)
    try:
        secret = await logins.finish(
            _returned(call.query_string), kept, address=call.address, replaces=secret_of(call)
        )
    except JqmasterError as exc:
        return _to_login_page(logins, logins.led_to(kept).place, exc, cookie.clear_login())
    return _redirect(
        f"{logins.policy.home_url}{logins.page_of(kept)}",
        cookie.set(secret, max_age_s=int(call.services.settings.session_life_s)),
        cookie.clear_login(),
        *await _end_own(call, logins.led_to(kept), secret),
    )


async def _end_own(call: Call, led_to: LedTo, secret: str) -> tuple[tuple[bytes, bytes], ...]:
    """End the session that a token of the namespace opened in this browser. Otherwise, that session would hide
    the login with `secret` in the namespace. Return the header that removes the cookie of the ended session."""
    if not led_to.own_session:
        return ()
    namespaces = call.services.namespaces
    namespace = namespaces.registry.current.get(led_to.namespace) if namespaces else None
    if namespaces and namespace:
        # best effort: a session that stays is unusable, because the browser no longer has its cookie.
        with contextlib.suppress(JqmasterError):
            person = await call.services.identity.sessions.find(secret)
            who = person.principal.name if person else PROVIDER_PREFIX
            await end_own_session(await namespaces.places.shard_of(namespace), led_to.own_session, who)
    return (call.policy.cookie_of(namespace=led_to.namespace).clear(),)


def _logins(call: Call) -> ProviderLogins:
    logins = call.services.identity.provider_logins
    if logins is None:
        raise NotFoundError("no login provider is configured", code="no_login_provider")
    return logins


def _returned(query: bytes) -> Returned:
    """Return the parameters of the provider's answer. Ignore unknown parameters."""
    try:
        found = parse_qs(query.decode("ascii"), max_num_fields=32)
    except ValueError:
        found = {}

    def only(name: str) -> str:
        values = found.get(name, [])
        return values[0] if len(values) == 1 else ""

    return Returned(only("code"), only("state"), only("iss") or None, only("error"))


def _to_login_page(
    logins: ProviderLogins, place: str, exc: JqmasterError, *headers: tuple[bytes, bytes]
) -> Reply:
    """Redirect to the login page of the namespace in which the login began. This page shows the person the error.
    Operators find the details in the log and the access log."""
    return _redirect(f"{logins.policy.home_url}{place}#/login?problem={exc.code}", *headers)


def _redirect(url: str, *headers: tuple[bytes, bytes]) -> Reply:
    return Reply(302, b"", ((b"location", url.encode("ascii", "ignore")), *headers), b"text/plain")
