"""Examples of bodies about problems."""

from typing import Any, Final

EXAMPLES: Final[dict[str, Any]] = {
    "Problem": {
        "type": "about:blank",
        "title": "Not valid",
        "status": 422,
        "detail": "priority: Input should be less than or equal to 2147483647",
        "code": "invalid",
        "errors": [{"loc": ["priority"], "msg": "Input should be less than or equal to 2147483647"}],
    },
}
