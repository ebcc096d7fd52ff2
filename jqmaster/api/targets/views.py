"""Targets as clients see them."""

from typing import Any

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.targets.figures import LastAnswer, SummedFigures
from jqmaster.service.targets.documents import describe
from jqmaster.service.targets.reader import ShownTarget
from jqmaster.service.targets.samples import Exchange


def target_view(shown: ShownTarget, access: ContentAccess) -> dict[str, Any]:
    """Return a `TargetDetail`."""
    stored = shown.stored
    return {
        **describe(stored.target),
        "etag": stored.etag,
        "created_at": iso_ms(stored.created_at_ms),
        "changed_at": iso_ms(stored.changed_at_ms),
        "created_by": stored.created_by,
        "serving": list(shown.serving),
        "left_out": shown.left_out,
        "running": shown.running,
        "unreachable": list(shown.unreachable),
        "figures": _figures(shown.figures, access),
    }


def _figures(figures: SummedFigures, access: ContentAccess) -> dict[str, Any]:
    return {
        "results": dict(figures.results),
        "requests_per_s": round(figures.per_s, 3),
        "took": figures.took.distribution(),
        "last": [_answer(one, access) for one in figures.last],
    }


def _answer(one: LastAnswer, access: ContentAccess) -> dict[str, Any]:
    # Hide the endpoint's answer like an error message of a handler, because the answer may repeat job content.
    is_shown = access.error_text_cover is None
    return {
        "at": iso_ms(one.at_ms),
        "job_id": one.job_id,
        "attempt": one.attempt,
        "result": str(one.result),
        "status": one.status or None,
        "took_ms": one.took_ms,
        "detail": f"{one.detail}: {one.said}" if one.said and is_shown else one.detail,
        "body": one.excerpt if is_shown else None,
    }


def test_view(exchange: Exchange) -> dict[str, Any]:
    """Return a `TargetTest`."""
    return {
        "request": {
            "method": exchange.method,
            "url": exchange.url,
            "headers": dict(exchange.headers),
            "body": exchange.request_body,
        },
        "answer": {
            "status": exchange.status,
            "headers": dict(exchange.answer_headers),
            "body": exchange.body,
        }
        if exchange.status
        else None,
        "took_ms": exchange.took_ms,
        "result": exchange.meaning,
        "detail": exchange.detail,
    }
