"""A web application that receives its own jobs: it accepts an order, and a job sends the mail later.

    pip install starlette uvicorn httpx
    SECRET=$(jqmaster webhooks secret) JQMASTER_URL=http://127.0.0.1:8080 uvicorn examples.targets.shop:app --port 8001

The target, with the same secret:

    curl -X PUT localhost:8080/api/targets/shop -H 'Content-Type: application/json' \
      -d '{"names": ["shop.*"], "url": "http://127.0.0.1:8001/jobs/{name}", "secret": "'$SECRET'"}'
"""

import base64
import hmac
import os
import time

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

MASTER = os.environ.get("JQMASTER_URL", "http://127.0.0.1:8080")
SECRET = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))
# The state of each order, and the fence of its last delivery. A real application would store them in a table.
orders: dict[int, str] = {}
fences: dict[int, int] = {}


async def take_order(request: Request) -> Response:
    """Accept an order, and enqueue a job for the mail."""
    number = len(orders) + 1
    orders[number] = "taken"
    async with httpx.AsyncClient() as http:
        job = {"name": "shop.mail", "argument": {"order": number}, "keep_result": True}
        answer = await http.post(f"{MASTER}/api/jobs", json=job, headers={"Accept": "application/json"})
        answer.raise_for_status()
    return JSONResponse({"order": number, "job": answer.json()["id"]}, 201)


async def send_mail(request: Request) -> Response:
    """Run the job. The status 2xx means success, and the body is the result. 404 means that the job fails for good.
    After any other status, the job is tried again."""
    body = await request.body()
    if not is_signed(request, body):
        return Response(status_code=401)
    order = (await request.json())["order"]
    if order not in orders:
        return JSONResponse({"error": f"no order {order}"}, 404)
    # Ignore a delivery that is older than the last delivery. Deliveries may be repeated or late, and the fence grows
    # with each delivery.
    fence = int(request.headers["JQ-Fence"])
    if fence < fences.get(order, 0):
        return JSONResponse({"error": "a newer delivery has begun"}, 410)
    fences[order] = fence
    orders[order] = "mailed"
    return JSONResponse({"order": order, "to": "ada@shop.example"})


def is_signed(request: Request, body: bytes) -> bool:
    """Return whether the signature is valid according to Standard Webhooks. There are also libraries for this."""
    sent_at = request.headers.get("webhook-timestamp", "0")
    if abs(time.time() - int(sent_at)) > 300:
        return False
    signed = f"{request.headers.get('webhook-id')}.{sent_at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(SECRET, signed, "sha256")).decode()
    given = request.headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(one, expected) for one in given)


async def show_order(request: Request) -> Response:
    return JSONResponse({"state": orders.get(request.path_params["order"])})


app = Starlette(
    routes=[
        Route("/orders", take_order, methods=["POST"]),
        Route("/orders/{order:int}", show_order),
        Route("/jobs/shop.mail", send_mail, methods=["POST"]),
    ]
)
