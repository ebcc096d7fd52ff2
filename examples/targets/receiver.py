"""A receiver in plain Python that answers later: it accepts the job, works in a thread, and calls back.

    python examples/targets/receiver.py 8002

    curl -X PUT localhost:8080/api/targets/films -H 'Content-Type: application/json' \
      -d '{"names": ["film.cut"], "url": "http://127.0.0.1:8002/"}'
"""

import json
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(BaseHTTPRequestHandler):
    """Answers 202 with JQ-Await: the job waits up to an hour for the callback, without a connection or a slot."""

    def do_POST(self) -> None:
        try:
            film = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        except ValueError:
            self.send_error(400)
            return
        # Start the work for each delivery. (Within one attempt, repeated deliveries have the same callback address.)
        work = threading.Thread(target=cut, args=(film, self.headers["JQ-Callback-Url"]))
        self.send_response(202)
        self.send_header("JQ-Await", "3600")
        self.send_header("Content-Length", "0")
        self.end_headers()
        work.start()


def cut(film: dict[str, int], callback_url: str) -> None:
    """Do the work, and post the result to the callback address."""
    time.sleep(film.get("minutes", 0) / 1000)
    body = json.dumps({"minutes": film.get("minutes", 0), "cut": True}).encode()
    call = urllib.request.Request(callback_url, body, {"Content-Type": "application/json"})
    urllib.request.urlopen(call).close()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
