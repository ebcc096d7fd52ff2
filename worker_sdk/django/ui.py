"""The web UI of jqmaster as a part of a Django site, behind its login and its permissions.

Add `path("jobs/", include("worker_sdk.django.ui"))` to the URLs of the site. Requests go to a master with the name and
the role of Django's user. Django's cookies do not reach the master, and no credential of the master reaches the
browser. Requests to the address of a challenge go to the master without a user, because that address is the credential.
"""

import logging
import re
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx
from asgiref.sync import sync_to_async
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from worker_sdk.django.masters import UnknownSiteError, masters
from worker_sdk.django.ui_settings import role_of, ui_settings

logger = logging.getLogger(__name__)

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_SAFE: Final = frozenset({"GET", "HEAD"})
# The request headers that are passed on to a master. Cookies and credentials are not among them: they belong to Django.
_REQUEST_FIELDS: Final = (
    "accept", "accept-encoding", "content-type", "idempotency-key", "if-match", "if-none-match", "jq-store",
    "last-event-id", "x-request-id",
)  # fmt: skip
# Paths of challenges. They need no login, because outside systems and people with a link call them.
_CALLBACK: Final = re.compile(r"callbacks/[A-Za-z0-9_-]{1,100}(/progress)?")
# Headers of calls to challenges that are not passed on. All other headers are passed on, because a header that holds a
# signature may have any name.
_KEPT_BACK: Final = frozenset(
    {
        "authorization", "connection", "content-length", "cookie", "forwarded", "host", "jq-proxy-secret", "keep-alive",
        "te", "trailer", "transfer-encoding", "upgrade", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
        "x-real-ip",
    }
)  # fmt: skip
_DROPPED_FIELDS: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "set-cookie",
        "strict-transport-security",
        "transfer-encoding",
        "server",
        "date",
    }
)
# The answer of `GET api/session` for users who are not logged in to the site.
_NOBODY: Final[dict[str, Any]] = {
    "who": None, "role": None, "scopes": [], "method": None, "csrf_token": None, "expires_at": None,
    "login_by_user": False, "login_provider": None, "logout_url": None, "has_namespaces": False,
    "namespaces": None,
}  # fmt: skip
_CSRF_TOKEN: Final = "by-proxy"  # noqa: S105  no secret
# The user name for requests that check whether a master trusts this site.
_NO_USER: Final = "site"


async def jobs(request: HttpRequest, path: str) -> HttpResponseBase:
    """Show a page of the web UI, or pass an API call of the UI to a master."""
    user = await request.auser()
    role = await sync_to_async(role_of)(user)
    if _CALLBACK.fullmatch(path):
        return await _challenge(request, path, user, role)
    if role is None:
        return _without_role(request, path, is_authenticated=user.is_authenticated)
    if refusal := _refusal(request, path):
        return refusal
    fields = _fields(request, user.get_username(), role)
    return await _passed_on(request, path, fields, fields)


async def _challenge(request: HttpRequest, path: str, user: Any, role: str | None) -> HttpResponseBase:
    """Pass on a request to the address of a challenge. The master decides whether a user is needed, and whether the
    user's own browser page sent the answer."""
    if refusal := _unknown_method(request) or _cross_site(request):
        return refusal
    fields = _callback_fields(request)
    if role is not None:
        fields += _user_fields(user.get_username(), role)
    answer = await _passed_on(request, path, fields, _user_fields(_NO_USER, "viewer"))
    wants_page = "text/html" in request.headers.get("accept", "").lower()
    if answer.status_code != HTTPStatus.UNAUTHORIZED or not wants_page:
        return answer
    answer.close()
    if user.is_authenticated:
        raise PermissionDenied("the user may not answer challenges")
    return redirect_to_login(request.get_full_path())


async def _passed_on(
    request: HttpRequest, path: str, fields: list[tuple[str, bytes]], probe: list[tuple[str, bytes]]
) -> HttpResponseBase:
    """Return a master's answer. `probe`: header fields of a first request that checks whether the master trusts this
    site."""
    try:
        content = request.body
    except RequestDataTooBig:
        return _problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", "DATA_UPLOAD_MAX_MEMORY_SIZE is exceeded"
        )
    query = request.META["QUERY_STRING"]
    target = quote(path, safe="/~!$&'()*+,;=:@") + (f"?{query}" if query else "")
    try:
        if isinstance(request, ASGIRequest):
            answer = await masters().send(request.method, target, fields, content, probe=probe)
            if _is_stream(answer):
                return _answer(answer, StreamingHttpResponse(_body(answer)))
            return _answer(answer, HttpResponse([part async for part in _body(answer)]))
        # A blocking call delays no other request, because Django's WSGI handler made this event loop for this request
        # only.
        answer = masters().send_sync(request.method, target, fields, content, probe=probe)
        if _is_stream(answer):
            return _answer(answer, StreamingHttpResponse(_body_sync(answer)))
        return _answer(answer, HttpResponse(list(_body_sync(answer))))
    except UnknownSiteError as exc:
        logger.error("%s", exc)
        return _problem(HTTPStatus.BAD_GATEWAY, "site_unknown", "the master does not know this site")
    except httpx.TransportError as exc:
        logger.warning("no master answers: %s", exc)
        return _problem(HTTPStatus.BAD_GATEWAY, "no_master", "no master answers")


# Django's CSRF check does not apply: the master's pages do not know Django's token, and their requests have their own
# header against cross-site calls.
urlpatterns = [re_path(r"^(?P<path>.*)$", csrf_exempt(jobs), name="jqmaster")]


def _without_role(request: HttpRequest, path: str, *, is_authenticated: bool) -> HttpResponseBase:
    if not path.startswith("api/"):
        if is_authenticated:
            raise PermissionDenied("the user may not see jobs")
        return redirect_to_login(request.get_full_path())
    if is_authenticated:
        return _problem(HTTPStatus.FORBIDDEN, "no_role", "the user has no permission to see jobs")
    if request.method == "GET" and path == "api/session":
        # If a page that is open asks for its session, answer without a login, so that the page learns where to log in
        # again.
        back = request.path.removesuffix(path)
        login_url = redirect_to_login(back).url
        return JsonResponse(_NOBODY | {"login_url": login_url}, headers={"Cache-Control": "no-store"})
    return _problem(HTTPStatus.UNAUTHORIZED, "unauthorized", "log in to this site")


def _refusal(request: HttpRequest, path: str) -> HttpResponse | None:
    if refusal := _unknown_method(request):
        return refusal
    if any(segment in (".", "..") for segment in path.split("/")):
        return _problem(HTTPStatus.NOT_FOUND, "not_found", "there is no such page")
    if request.method in _SAFE:
        return None
    if refusal := _cross_site(request):
        return refusal
    if request.headers.get("x-csrf-token") != _CSRF_TOKEN:
        return _problem(
            HTTPStatus.FORBIDDEN, "csrf", "X-CSRF-Token is not the token that `GET api/session` returns"
        )
    return None


def _unknown_method(request: HttpRequest) -> HttpResponse | None:
    if request.method in _METHODS:
        return None
    return _problem(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", "the method is not allowed")


def _cross_site(request: HttpRequest) -> HttpResponse | None:
    """Return a refusal if a page of another site made the browser send the request. Otherwise, return None."""
    if request.method in _SAFE:
        return None
    origin = request.headers.get("origin")
    if origin is not None:
        sent = urlsplit(origin)
        # Behind a proxy that ends TLS, Django may see HTTP although browsers use HTTPS, so accept that difference.
        # Refuse the opposite difference.
        is_elsewhere = sent.netloc != request.get_host() or (request.is_secure() and sent.scheme != "https")
    else:
        is_elsewhere = False
    if is_elsewhere or request.headers.get("sec-fetch-site", "same-origin") == "cross-site":
        return _problem(HTTPStatus.FORBIDDEN, "cross_site", "requests from other sites are refused")
    return None


def _callback_fields(request: HttpRequest) -> list[tuple[str, bytes]]:
    """Return the header fields of a request to the address of a challenge, without any that could name a user."""
    known = ui_settings()
    kept_back = _KEPT_BACK | {known.user_header.lower(), known.groups_header.lower()}
    fields = [
        (name, value.encode("latin-1"))
        for name, value in request.headers.items()
        if name.lower() not in kept_back
    ]
    if "accept-encoding" not in request.headers:
        fields.append(("accept-encoding", b"identity"))
    return [*fields, ("x-forwarded-for", str(request.META.get("REMOTE_ADDR") or "").encode())]


def _user_fields(name: str, role: str) -> list[tuple[str, bytes]]:
    """Return the header fields that name a user to the master."""
    known = ui_settings()
    fields = [(known.user_header, name.encode()), (known.groups_header, role.encode())]
    return [("jq-proxy-secret", known.secret.encode()), *fields] if known.secret else fields


def _fields(request: HttpRequest, name: str, role: str) -> list[tuple[str, bytes]]:
    """Return the header fields for the master: the name and role of the user, and the fields of the browser's request
    that the master needs."""
    fields = [
        (field, request.headers[field].encode("latin-1"))
        for field in _REQUEST_FIELDS
        if field in request.headers
    ]
    if "accept-encoding" not in request.headers:
        fields.append(
            ("accept-encoding", b"identity")
        )  # if it were missing, httpx would accept encodings that the browser cannot read
    return [
        *fields,
        ("x-forwarded-for", str(request.META.get("REMOTE_ADDR") or "").encode()),
        ("x-csrf-token", _CSRF_TOKEN.encode()),
        *_user_fields(name, role),
    ]


def _is_stream(answer: httpx.Response) -> bool:
    return str(answer.headers.get("content-type", "")).startswith("text/event-stream")


def _answer(answer: httpx.Response, response: HttpResponseBase) -> HttpResponseBase:
    response.status_code = answer.status_code
    del response["content-type"]
    for name, value in answer.headers.multi_items():
        if name not in _DROPPED_FIELDS:
            response[name] = value
    # This header keeps proxies in front of Django from delaying events.
    response["x-accel-buffering"] = "no"
    if _is_stream(answer) and "content-encoding" not in response:
        # Django's GZipMiddleware would delay small events. The middleware does not touch a response that has an
        # encoding.
        response["content-encoding"] = "identity"
    return response


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body as received, without decompressing it."""
    try:
        async for part in answer.aiter_raw():
            yield part
    except httpx.TransportError:
        if not _is_stream(answer):
            raise
        # The master has closed the connection. The page connects again.
    finally:
        await answer.aclose()


def _body_sync(answer: httpx.Response) -> Iterator[bytes]:
    try:
        yield from answer.iter_raw()
    except httpx.TransportError:
        if not _is_stream(answer):
            raise
    finally:
        answer.close()


def _problem(status: HTTPStatus, code: str, detail: str) -> HttpResponse:
    return JsonResponse(
        {
            "type": "about:blank",
            "title": status.phrase,
            "status": status.value,
            "detail": detail,
            "code": code,
        },
        status=status,
        content_type="application/problem+json",
        headers={"Cache-Control": "no-store"},
    )
