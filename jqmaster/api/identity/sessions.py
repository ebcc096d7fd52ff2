"""Logins of browsers over HTTP."""

from typing import Any, Final

from jqmaster.api.http.auth import check_csrf
from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.proxy_login import CSRF_TOKEN, PREFIX
from jqmaster.api.identity.schemas import LoginRequest, OwnPasswordRequest
from jqmaster.domain.identity.access import Principal, role_of
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.errors import ConflictError, UnauthorizedError
from jqmaster.service.identity.identity import OwnLogins
from jqmaster.service.identity.sessions import Session, csrf_token_of, session_id_of
from jqmaster.store.identity.sessions import ListedSession

# Maximum size of the body of a login. The limit is low because the caller of a login is not known yet.
MAX_LOGIN_BYTES: Final = 4096


async def get(call: Call) -> Reply:
    if call.session is None and b"cookie" in call.fields:
        # Let this call raise an error if the store is unreachable. Otherwise, the caller would believe that the
        # session has ended.
        await call.policy.session(call.fields)
    return Reply(200, _view(call, call.principal, call.session))


async def login(call: Call) -> Reply:
    request = await call.read(LoginRequest, max_bytes=MAX_LOGIN_BYTES)
    identity, cookie = call.services.identity, call.policy.cookie
    replaces = secret_of(call)
    cookies: tuple[tuple[bytes, bytes], ...] = ()
    if request.token is not None and identity.own and identity.own.knows(request.token):
        return await _log_in_here(call, identity.own, request.token)
    own_session = call.session if call.session and call.session.is_of_namespace else None
    if own_session is not None:
        # The browser has a session of the namespace, and may also have a session of the installation. Replace the
        # session of the installation if there is exactly one candidate for its cookie. Somebody else may have
        # planted a second one.
        kept = cookie.candidates(call.fields)
        replaces = kept[0] if len(kept) == 1 else None
    if request.token is not None:
        secret = await identity.logins.by_token(request.token, address=call.address, replaces=replaces)
    else:
        secret, device = await identity.logins.by_password(
            request.user or "",
            request.password or "",
            address=call.address,
            replaces=replaces,
            device=cookie.device(call.fields),
        )
        cookies = (*cookies, cookie.set_device(device))
    session = await identity.sessions.find(secret)
    if session is None:
        raise UnauthorizedError("the token has just been revoked", code="login_failed")
    if own_session is not None:
        # End the namespace's own session, because it would take precedence over this login.
        cookies = (*cookies, *await _end_own(call, own_session))
    max_age_s = int(call.services.settings.session_life_s)
    return Reply(
        201,
        _view(call, call.policy.seen_here(session.principal), session),
        (cookie.set(secret, max_age_s=max_age_s), *cookies),
    )


async def _log_in_here(call: Call, own: OwnLogins, token: str) -> Reply:
    """Log in with a token of the namespace. The session is valid only in this namespace."""
    cookie = call.policy.own_cookie
    assert cookie is not None, "a namespace with its own tokens has its own cookie"
    present = call.session if call.session and call.session.is_of_namespace else None
    replaces = secret_of(call) if present else None
    secret = await own.logins.by_token(token, address=call.address, replaces=replaces)
    session = await own.sessions.find(secret)
    if session is None:
        raise UnauthorizedError("the token has just been revoked", code="login_failed")
    max_age_s = int(call.services.settings.session_life_s)
    return Reply(201, _view(call, session.principal, session), (cookie.set(secret, max_age_s=max_age_s),))


async def _end_own(call: Call, session: Session) -> tuple[tuple[bytes, bytes], ...]:
    """End a session that a token of the namespace opened. Return the header that removes its cookie."""
    own, cookie = call.services.identity.own, call.policy.own_cookie
    if own is None or cookie is None:
        return ()
    if secret := secret_of(call):
        await own.sessions.logout(secret, session.principal.name)
    return (cookie.clear(),)


async def logout(call: Call) -> Reply:
    cookie = call.policy.cookie
    if call.session is not None:
        check_csrf("DELETE", call.fields, call.session)
        if call.session.is_of_namespace:
            return Reply(204, headers=await _end_own(call, call.session))
        if secret := secret_of(call):
            sessions, by_provider = call.services.identity.sessions, call.services.identity.provider_logins
            id_token = await sessions.id_token(call.session)
            await sessions.logout(secret, call.session.principal.name)
            if (
                by_provider
                and call.session.is_by_provider
                and (url := await by_provider.logout_url(id_token))
            ):
                return Reply(200, {"logout_url": url}, headers=(cookie.clear(),))
    return Reply(204, headers=(cookie.clear(),))


def secret_of(call: Call) -> str | None:
    """Return the secret in the cookie that belongs to the caller's session."""
    if call.session is None:
        return None
    secrets = call.policy.secrets(call.fields)
    return next((one for one in secrets if csrf_token_of(one) == call.session.csrf_token), None)


async def list_own(call: Call) -> Reply:
    session = _logged_in(call)
    found = await call.services.identity.sessions_of(session).own(session)
    return Reply(200, {"sessions": [_own_view(one, session) for one in found]})


async def end_others(call: Call) -> Reply:
    session = _logged_in(call)
    await call.services.identity.sessions_of(session).end_own(session, None)
    return Reply(204)


async def end_one(call: Call) -> Reply:
    session = _logged_in(call)
    await call.services.identity.sessions_of(session).end_own(session, call.path["session_id"])
    return Reply(204)


async def change_password(call: Call) -> Reply:
    session = _logged_in(call)
    request = await call.read(OwnPasswordRequest, max_bytes=MAX_LOGIN_BYTES)
    await call.services.identity.logins.change_own_password(
        session, request.old_password, request.new_password, address=call.address
    )
    return Reply(204)


def _logged_in(call: Call) -> Session:
    if call.session is None:
        raise ConflictError("only callers that are logged in have sessions", code="no_session")
    return call.session


def _own_view(one: ListedSession, current: Session) -> dict[str, Any]:
    return {
        "id": session_id_of(one),
        "is_current": one.digest == current.digest,
        "opened_at": iso_or_none(one.opened_ms),
        "last_used_at": iso_ms(one.used_ms),
        "expires_at": iso_ms(one.until_ms),
        "address": one.address,
    }


def _namespaces_of(principal: Principal) -> list[str]:
    """Return the namespaces in which the caller has rights of its own."""
    return [name for name, one in (principal.by_namespace or {}).items() if one.scopes]


def _has_namespaces(call: Call) -> bool:
    namespaces = call.services.namespaces
    return namespaces is None or len(namespaces.registry.current) > 1


def _view(call: Call, principal: Principal | None, session: Session | None) -> dict[str, Any]:
    scopes = principal.scopes if principal else frozenset()
    method, by_provider = None, call.services.identity.provider_logins
    if principal is not None:
        is_by_proxy = principal.name.startswith(PREFIX)
        method = (
            "session" if session else "proxy" if is_by_proxy else "local" if call.policy.is_open else "token"
        )
    return {
        "who": principal.name if principal else None,
        "role": role_of(scopes),
        "scopes": sorted(scopes),
        "has_namespaces": principal is not None
        and not (session and session.is_of_namespace)
        and _has_namespaces(call),
        "namespaces": sorted(_namespaces_of(principal)) if principal and principal.by_namespace else None,
        "method": method,
        "csrf_token": session.csrf_token if session else CSRF_TOKEN if method == "proxy" else None,
        "expires_at": iso_ms(session.until_ms) if session else None,
        "login_by_user": call.services.identity.directory.has_users,
        "login_provider": by_provider.policy.label if by_provider else None,
        "login_url": call.services.settings.proxy_login_url,
        "logout_url": call.services.settings.proxy_logout_url if method == "proxy" else None,
    }
