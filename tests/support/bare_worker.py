"""A worker written from openapi/worker.yaml with only an HTTP server and a MessagePack library, without our code.

Run as a script it is a whole worker process: `python bare_worker.py MASTER_URL NAME…`; it squares numbers.
"""

import contextlib
import hashlib
import hmac
import os
import queue
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgpack


class BareWorker:
    """Each handler in `handlers` is a function of the argument, by name. An exception means failure."""

    def __init__(self, master: str, handlers: Mapping[str, Callable[[Any], Any]], max_jobs: int = 4) -> None:
        self.master, self.handlers, self.max_jobs = master, handlers, max_jobs
        self.secret = os.urandom(32).hex()
        self.running: dict[str, str] = {}
        self.seen: set[str] = set()
        self.nonces: set[str] = set()
        self.epoch = 0
        self.jobs: queue.Queue[dict[str, Any]] = queue.Queue()
        self.worker_id: str | None = None
        worker = self

        class Endpoint(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def answer(self, status: int, value: object = None) -> None:
                body = b"" if value is None else msgpack.packb(value)
                self.send_response(status)
                self.send_header("Content-Type", "application/msgpack")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.answer(204 if self.path == "/ping" else 404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/challenge":
                    nonce = msgpack.unpackb(body)["nonce"].encode()
                    self.answer(
                        200, {"proof": hmac.new(worker.secret.encode(), nonce, hashlib.sha256).hexdigest()}
                    )
                elif not worker.is_signed(self.path, self.headers, body):
                    self.answer(401)
                elif self.path == "/jobs":
                    self.answer(200, worker.take(msgpack.unpackb(body, timestamp=3)))
                else:
                    self.answer(404)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def start(self) -> None:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        registered = self.call("POST", "/api/workers", {
            "url": self.url, "names": list(self.handlers), "max_jobs": self.max_jobs, "node_id": "bare",
            "pid": os.getpid(), "labels": {}, "version": "0", "secret": self.secret,
        })  # fmt: skip
        self.worker_id = registered["worker_id"]
        self.interval_s = registered["heartbeat_interval_s"]
        threading.Thread(target=self.beat, daemon=True).start()
        for _ in range(self.max_jobs):
            threading.Thread(target=self.work, daemon=True).start()

    def call(self, method: str, path: str, value: object) -> Any:
        request = urllib.request.Request(
            self.master + path, msgpack.packb(value), {"Content-Type": "application/msgpack"}, method=method
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return msgpack.unpackb(response.read())

    def is_signed(self, path: str, headers: Message, body: bytes) -> bool:
        parts = "POST", path, headers["X-JQ-Worker"], headers["X-JQ-Timestamp"], headers["X-JQ-Nonce"]
        message = "\n".join((*parts, hashlib.sha256(body).hexdigest()))
        expected = "v1=" + hmac.new(self.secret.encode(), message.encode(), hashlib.sha256).hexdigest()
        fresh = abs(time.time() * 1000 - int(parts[3])) < 300_000 and parts[4] not in self.nonces
        self.nonces.add(parts[4])
        return fresh and hmac.compare_digest(expected, headers["X-JQ-Signature"])

    def take(self, push: dict[str, Any]) -> dict[str, Any]:
        accepted: list[str] = []
        rejected: list[dict[str, Any]] = []
        for job in push["jobs"]:
            if job["token"] in self.seen:
                accepted.append(job["job_id"])
            elif len(self.running) >= self.max_jobs:
                rejected.append({"job_id": job["job_id"], "reason": "busy", "retry_after": None})
            else:
                self.seen.add(job["token"])
                self.running[job["job_id"]] = job["token"]
                self.jobs.put(job)
                accepted.append(job["job_id"])
        return {"accepted": accepted, "rejected": rejected}

    def work(self) -> None:
        while True:
            job = self.jobs.get()
            outcome = {"job_id": job["job_id"], "token": job["token"]}
            try:
                outcome |= {"type": "success", "result": self.handlers[job["name"]](job["argument"])}
            except Exception as exc:
                outcome |= {
                    "type": "failure",
                    "reason": "other",
                    "should_retry": True,
                    "error": None,
                    "message": repr(exc),
                }
            outcome["finished_at"] = datetime.now(UTC).isoformat()
            while True:
                try:
                    self.call("POST", f"/api/workers/{self.worker_id}/results", {"results": [outcome]})
                    break
                except OSError:
                    time.sleep(0.2)
            self.running.pop(job["job_id"], None)

    def beat(self) -> None:
        while True:
            running = [{"job_id": job_id, "token": token} for job_id, token in list(self.running.items())]
            with contextlib.suppress(OSError):
                self.call(
                    "POST",
                    f"/api/workers/{self.worker_id}/heartbeat",
                    {"running": running, "free": self.max_jobs - len(running)},
                )
            time.sleep(self.interval_s)


if __name__ == "__main__":
    BareWorker(sys.argv[1], {name: lambda x: x * x for name in sys.argv[2:]}).start()
    threading.Event().wait()
