"""Report the jobs of a worker after its process ended while handlers ran. Then unregister the worker.

This program runs in place of that process or after its end, so none of the handlers runs any more. It needs only the
standard library, because a deploy may have replaced the packages on the disk.

`main` gets a map:

* `workers`: a list of maps, below.
* `head`: the head of a call, in base64.
* `tls`: names of the files with authorities, certificate and key, or None.
* `parent`: the process to wait for, or None.
* `children`: IDs of processes that the handlers started, to be ended.
* `within_s`: seconds for which calls are repeated.
* `exit_code`: exit code of this process.

Each of the workers is a map, too:

* `masters`: the addresses of the masters.
* `headers`: headers of each call.
* `worker_id`: ID of the worker.
* `is_announced`: masters know of the end.
* `batches`: lists of reports, each in base64.
"""

import base64
import contextlib
import http.client
import os
import signal
import ssl
import threading
import time
import urllib.parse
from typing import Any

CALL_S = 5.0
LOOK_S = 0.05
# How long child processes, such as the guard of a command, may take to end after the worker's process.
NOTICE_S = 1.0
STORE = "JQ-Store"


def main(order: "dict[str, Any]") -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while order["parent"] is not None and os.getppid() == order["parent"]:
        time.sleep(LOOK_S)
    end_children(order["children"])
    # Use a thread for each worker: if the masters of one namespace do not answer, the calls of other namespaces must
    # not wait.
    calls = [threading.Thread(target=FarewellCalls({**order, **worker}).say) for worker in order["workers"]]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    os._exit(order["exit_code"])


def end_children(pids: "list[int]") -> None:
    """Wait for these children of this process, and kill those that do not end by themselves."""
    left = set(pids)
    kill_s = time.monotonic() + NOTICE_S
    while left:
        for pid in list(left):
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    left.discard(pid)
                elif time.monotonic() >= kill_s:
                    os.kill(pid, signal.SIGKILL)
            except (ChildProcessError, ProcessLookupError, PermissionError):
                left.discard(pid)
        time.sleep(0.01)


class FarewellCalls:
    """The calls for one worker ID, repeated at each master in turn until one answers or the time is over."""

    def __init__(self, order: "dict[str, Any]") -> None:
        self._masters: list[str] = order["masters"]
        self._headers: dict[str, str] = order["headers"]
        self._path = "/api/workers/" + order["worker_id"]
        self._is_announced: bool = order["is_announced"]
        self._head = base64.b64decode(order["head"])
        self._batches = [[base64.b64decode(one) for one in batch] for batch in order["batches"]]
        self._end_s = time.monotonic() + order["within_s"]
        self._context = None
        if order["tls"] is not None:
            cafile, certfile, keyfile = order["tls"]
            self._context = ssl.create_default_context(cafile=cafile)
            if certfile:
                self._context.load_cert_chain(certfile, keyfile)

    def say(self) -> None:
        if not self._is_announced:
            self._call("POST", self._path + "/leaving", None)
        while self._batches:
            batch = self._batches.pop()
            body = self._head + len(batch).to_bytes(2, "big") + b"".join(batch)
            status = self._call("POST", self._path + "/results", body)
            if status in (400, 413, 422) and len(batch) > 1:
                # Repeat each report alone, so that an invalid report does not block the other reports.
                self._batches += [[one] for one in batch]
        self._call("DELETE", self._path, None)

    def _call(self, method: str, path: str, body: "bytes | None") -> int:
        """Return the status of the answer, or 0 if none came in time."""
        tries = 0
        while (left_s := self._end_s - time.monotonic()) > 0:
            address = self._masters[tries % len(self._masters)]
            tries += 1
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                status, data = self._ask(address, method, path, body, min(left_s, CALL_S))
                if status < 300 or status in (400, 405, 413, 422):
                    return status
                # Masters of release 0.3 do not know the announcement, and answer 404.
                if status == 404 and (b"unknown_worker" in data or path.endswith("/leaving")):
                    return status
            if tries % len(self._masters) == 0:
                time.sleep(min(1.0, 0.05 * 2 ** min(tries, 8)))
        return 0

    def _ask(
        self, address: str, method: str, path: str, body: "bytes | None", timeout_s: float
    ) -> "tuple[int, bytes]":
        parts = urllib.parse.urlsplit(address)
        assert parts.hostname
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout_s, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        with contextlib.closing(connection):
            connection.request(method, parts.path + path, body=body, headers=self._headers)
            answer = connection.getresponse()
            store = answer.getheader(STORE)
            if store and store != self._headers.get(STORE, store):
                raise ValueError("a master of another store")
            return answer.status, answer.read(65536)
