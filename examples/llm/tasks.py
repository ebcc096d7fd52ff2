"""The task that calls the model. Run it alone with `jqmaster worker examples.llm.tasks:tasks`."""

import os
from collections.abc import AsyncIterator

import httpx

from worker_sdk import INJECTED, ApiLimits, Context, Defer, Depends, Tasks

tasks = Tasks()
# Narrow these constraints by the headers of each answer, which state how much the API still admits.
limits = ApiLimits(requests="model-requests", tokens="model-tokens")


async def open_client() -> AsyncIterator[httpx.AsyncClient]:
    url = os.environ.get("LLM_MODEL_URL", "http://127.0.0.1:9100")
    hooks = {"response": [limits.async_hook]}
    async with httpx.AsyncClient(base_url=url, timeout=30.0, trust_env=False, event_hooks=hooks) as client:
        yield client


@tasks.task("text.summarize", timeout=60, max_retry=20)
async def summarize(
    tenant: str,
    text: str,
    max_tokens: int,
    number: int,
    ctx: Context = INJECTED,
    client: httpx.AsyncClient = Depends(open_client, scope="worker"),
) -> int:
    """Return the number of tokens that the model used. `max_tokens`: the estimate, which the constraint charges."""
    body = {"tenant": tenant, "text": text, "max_tokens": max_tokens, "number": number}
    answer = await client.post("/v1/summaries", json=body)
    if answer.status_code == 429:
        raise Defer(limits.retry_after_s(answer), hold="model-tokens")
    answer.raise_for_status()
    used = int(answer.json()["usage"]["total_tokens"])
    ctx.used(tokens=used)
    return used
