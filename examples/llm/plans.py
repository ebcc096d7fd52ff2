"""The plans of the tenants, and the constraints that share the limits of the model's API among them."""

from typing import Any, Final

# The share of each plan, and the number of tenants by plan. While a tenant of plan `free` has one turn, a tenant of
# `pro` has ten.
WEIGHTS: Final = {"pro": 10, "team": 3, "free": 1}
TENANTS: Final = {
    **{f"pro-{n}": "pro" for n in range(1, 3)},
    **{f"team-{n}": "team" for n in range(1, 7)},
    **{f"free-{n}": "free" for n in range(1, 13)},
}
JOB: Final = "text.summarize"
_MATCHER: Final = {"field": "name", "op": "eq", "value": JOB}
# The fraction of the API's limits that jobs may use. The rest is for jobs that use more tokens than estimated.
SHARE: Final = 0.96


def constraints_for(requests: int, tokens: int, window_s: float) -> dict[str, dict[str, Any]]:
    """Return the constraints for an API that admits this many requests and tokens in any window."""

    def rate(most: int) -> dict[str, Any]:
        return {"limit": int(most * SHARE), "period_s": window_s}

    return {
        "model-requests": {"matcher": _MATCHER, "rate": rate(requests)},
        "model-tokens": {
            "matcher": _MATCHER,
            "rate": rate(tokens),
            "weight": {"from": "argument.max_tokens", "default": 500, "unit": "tokens"},
        },
        "tenants": {
            "matcher": _MATCHER,
            "key": "argument.tenant",
            "concurrency": 50,
            "fair": {
                "weights": [{"value": tenant, "weight": WEIGHTS[plan]} for tenant, plan in TENANTS.items()],
                "default": 1,
            },
        },
    }
