"""A sample: one request to a target without a job."""

import time
from dataclasses import replace
from typing import Final

from jqmaster.domain.ids import new_id
from jqmaster.domain.targets.answer import DeliveryResult
from jqmaster.domain.targets.target import HIDDEN, AddressError, HttpTarget, address_of, shown_address
from jqmaster.errors import FieldError, InvalidError
from jqmaster.runtime.outbound.target_client import excerpt_of
from jqmaster.runtime.targets.delivery import request_of
from jqmaster.runtime.targets.target_worker import TargetServices
from jqmaster.service.targets.samples import Exchange, Sample
from jqmaster.store.codec import ClaimedRecord
from jqmaster.store.jobs.claims import ClaimedJob

# Timeout of a test call. It is short, because people wait for the answer.
TIMEOUT_S: Final = 15.0
_NO_TOKEN: Final = "0" * 32


async def send_sample(target: HttpTarget, sample: Sample, services: TargetServices) -> Exchange:
    """Send the sample and return the exchange. Raise InvalidError if its argument names no address that the target may
    call."""
    now_ms = round(time.time() * 1000)
    record = ClaimedRecord(1, round(TIMEOUT_S * 1000), sample.name, {}, sample.argument, created_at_ms=now_ms)
    job = ClaimedJob(new_id(), _NO_TOKEN, 1, record)
    try:
        request = request_of(
            target, job, services.conversions, now_ms=now_ms, callback_base=services.callback_base()
        )
    except AddressError as exc:
        raise InvalidError(str(exc), errors=[FieldError(("argument",), str(exc))]) from None
    request = replace(request, fields={**request.fields, "JQ-Test": "true"})
    shown = services.client.fields_of(target, request) | dict.fromkeys(target.headers, HIDDEN)
    began_s = services.clock.monotonic_s()
    answer = await services.client.call(target, request)
    end = answer.end
    url = request.url
    if not target.url_from:
        shown_target = replace(target, url=shown_address(target.url))
        url = address_of(shown_target, record.name, job.job_id, None)
    return Exchange(
        target.method,
        url,
        shown,
        excerpt_of(request.body),
        0 if end.result is DeliveryResult.UNREACHABLE else end.status,
        answer.fields,
        answer.excerpt,
        round((services.clock.monotonic_s() - began_s) * 1000),
        str(end.result),
        f"{end.detail}: {end.said}" if end.said else end.detail,
    )
