"""The outside world of the example, on this machine: a small site to which posts link."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Pages(BaseHTTPRequestHandler):
    """Serves a page at every path. The title of the page is the path."""

    def do_GET(self) -> None:
        body = f"<!doctype html><title>All about {self.path.strip('/')}</title>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Pages).serve_forever()
