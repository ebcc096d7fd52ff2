"""Examples of bodies about tokens, users and the audit log."""

from typing import Any, Final

from jqmaster.spec.examples.values import SESSION_ID, TOKEN_ID

_API_TOKEN: Final[dict[str, Any]] = {
    "id": TOKEN_ID,
    "label": "web shop",
    "scopes": ["push"],
    "names": ["mail.*"],
    "namespaces": ["*"],
    "created_at": "2026-11-21T04:30:00.000Z",
    "created_by": "user:ada",
    "expires_at": None,
    "last_used_at": "2026-11-21T04:31:00.000Z",
    "is_replaced": False,
}
_NEW_TOKEN: Final = f"jqm_push_{TOKEN_ID}_{'0' * 48}00000000"
_USER: Final[dict[str, Any]] = {
    "name": "ada",
    "role": "operator",
    "namespaces": {"shop": "admin"},
    "created_at": "2026-11-21T04:30:00.000Z",
    "last_login_at": None,
    "is_disabled": False,
}

EXAMPLES: Final[dict[str, Any]] = {
    "LoginRequest": {"user": "ada", "password": "correct horse battery"},
    "SessionView": {
        "who": "user:ada",
        "role": "operator",
        "scopes": ["operate", "push", "read"],
        "method": "session",
        "csrf_token": "3b9c" * 16,
        "expires_at": "2026-11-21T16:30:00.000Z",
        "login_by_user": True,
        "namespaces": None,
        "has_namespaces": True,
    },
    "OwnPasswordRequest": {"old_password": "correct horse battery", "new_password": "seven plums in a hat"},
    "OwnSessionList": {
        "sessions": [
            {
                "id": SESSION_ID,
                "is_current": True,
                "opened_at": "2026-11-21T04:30:00.000Z",
                "last_used_at": "2026-11-21T05:12:00.000Z",
                "expires_at": "2026-11-21T16:30:00.000Z",
                "address": "192.0.2.17",
            }
        ]
    },
    "TokenRequest": {"label": "web shop", "scopes": ["push"], "names": ["mail.*"], "ttl_s": 7_776_000},
    "RotateRequest": {"overlap_s": 3600},
    "TokenView": _API_TOKEN,
    "NewTokenView": {**_API_TOKEN, "last_used_at": None, "token": _NEW_TOKEN},
    "TokenList": {"tokens": [_API_TOKEN]},
    "UserRequest": {"name": "ada", "password": "correct horse battery", "role": "operator"},
    "UserPatch": {"role": "viewer"},
    "UserView": _USER,
    "UserList": {"users": [_USER]},
}
