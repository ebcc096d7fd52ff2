"""Routes of logins, tokens and users."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.identity import provider, schemas, sessions, tokens, users
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_LOGIN_TEXT: Final = (
    "Sets a cookie that holds the session. If a request with this cookie changes something, it must send "
    "the answer's `csrf_token` in the header X-CSRF-Token. After too many failed logins, the answer is 429. "
    "Below the path of a namespace, a token of this namespace opens a session for this namespace only. That "
    "session takes precedence over a session of the installation. It ends when the browser logs in with "
    "another token or as a user."
)
_CREATE_TEXT: Final = "Only this answer contains the token. The master keeps only its SHA-256."
_ROTATE_TEXT: Final = "Returns a new token with the same rights. The old token stays valid for `overlap_s`."
_REVOKE_TEXT: Final = (
    "Takes effect within 5 s on all masters. Sessions that were opened with the token end at once."
)
_CHANGE_TEXT: Final = (
    "Only for a user who is logged in. Ends the user's other logins. A wrong old password gets 403 "
    "`wrong_password` and counts as a failed login."
)
_LOGOUT_TEXT: Final = "200: the login provider has its own session. Open `logout_url` to end that session."
_BEGIN_TEXT: Final = (
    "For browsers, as a page. Redirects to the OpenID Connect provider of the settings (authorization code "
    "flow with PKCE). The answer is 404 if no provider is configured."
)
_FINISH_TEXT: Final = (
    "The redirect URI for the provider. Sets the cookie of a session and redirects to the web UI. If the "
    "login fails, redirects to the login page, with the code of the problem in the parameter `problem`."
)
_OWN_TEXT: Final = "For callers that are logged in. With a bearer token, the answer is 409 `no_session`."
_USER_TEXT: Final = "Any change ends the user's sessions."

OPERATIONS: Final = [
    Operation("GET", "/api/session", sessions.get, None, "Get the current session", "identity",
              {200: schemas.SessionView}, problems=_STORE),
    Operation("POST", "/api/session", sessions.login, None, "Log in", "identity",
              {201: schemas.SessionView}, schemas.LoginRequest, problems=(401, 403, 429, *_STORE), text=_LOGIN_TEXT),
    Operation("DELETE", "/api/session", sessions.logout, None, "Log out", "identity",
              {200: schemas.LogoutView, 204: None}, problems=(403, *_STORE), text=_LOGOUT_TEXT),
    Operation("GET", "/api/login/oidc", provider.begin, None, "Log in with the provider", "identity", {302: None},
              query={"page": {"schema": {"type": "string"}, "description": ("Page of the web UI to show after "
                                                                           "the login, such as `#/jobs`.")}},
              problems=(404, *_STORE), text=_BEGIN_TEXT),
    Operation("GET", "/api/login/oidc/callback", provider.finish, None, "Finish a login with the provider", "identity",
              {302: None}, problems=(404, *_STORE), text=_FINISH_TEXT),
    Operation("POST", "/api/session/password", sessions.change_password, Scope.READ, "Change my password", "identity",
              {204: None}, schemas.OwnPasswordRequest, problems=(404, 409, 429, *_STORE), text=_CHANGE_TEXT),
    Operation("GET", "/api/sessions", sessions.list_own, Scope.READ, "List my logins", "identity",
              {200: schemas.OwnSessionList}, problems=(409, *_STORE), text=_OWN_TEXT),
    Operation("DELETE", "/api/sessions", sessions.end_others, Scope.READ, "End my other logins", "identity",
              {204: None}, problems=(409, *_STORE)),
    Operation("DELETE", "/api/sessions/{session_id}", sessions.end_one, Scope.READ, "End one of my logins", "identity",
              {204: None}, problems=(404, 409, *_STORE)),
    Operation("GET", "/api/tokens", tokens.list_tokens, Scope.ADMIN, "List tokens", "identity",
              {200: schemas.TokenList}, problems=_STORE),
    Operation("POST", "/api/tokens", tokens.create, Scope.ADMIN, "Create a token", "identity",
              {201: schemas.NewTokenView}, schemas.TokenRequest, problems=(409, *_STORE), text=_CREATE_TEXT),
    Operation("POST", "/api/tokens/{token_id}/rotate", tokens.rotate, Scope.ADMIN, "Replace a token", "identity",
              {201: schemas.NewTokenView}, schemas.RotateRequest, problems=(404, 409, *_STORE), text=_ROTATE_TEXT),
    Operation("DELETE", "/api/tokens/{token_id}", tokens.revoke, Scope.ADMIN, "Revoke a token", "identity",
              {204: None}, problems=(404, 409, *_STORE), text=_REVOKE_TEXT),
    Operation("GET", "/api/users", users.list_users, Scope.ADMIN, "List users", "identity",
              {200: schemas.UserList}, problems=(404, *_STORE), is_of_installation=True),
    Operation("POST", "/api/users", users.create, Scope.ADMIN, "Add a user", "identity",
              {201: schemas.UserView}, schemas.UserRequest, problems=(404, 409, 429, *_STORE), is_of_installation=True),
    Operation("PATCH", "/api/users/{user}", users.change, Scope.ADMIN,
              "Change a user's role or password, or disable the user", "identity",
              {200: schemas.UserView}, schemas.UserPatch, problems=(404, 409, 429, *_STORE), text=_USER_TEXT,
              is_of_installation=True),
    Operation("DELETE", "/api/users/{user}/sessions", users.end_sessions, Scope.ADMIN, "End a user's logins",
              "identity",
              {204: None}, problems=(404, *_STORE), is_of_installation=True),
    Operation("DELETE", "/api/users/{user}", users.remove, Scope.ADMIN, "Delete a user", "identity",
              {204: None}, problems=(404, 409, *_STORE), text=_USER_TEXT, is_of_installation=True),
]  # fmt: skip
