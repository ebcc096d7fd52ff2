/** The worker's own HTTP server, for programs that have none. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CONTENT_TYPE } from "../wire/msgpack.js";
import { OverloadedError, bodyOf } from "./bodies.js";
import type { CallServer, Incoming, Outgoing } from "./endpoint.js";

const MAX_CONNECTIONS = 512;
/** Masters keep connections open. */
const KEEP_ALIVE_MS = 75_000;
const HEAD_MS = 10_000;
const REQUEST_MS = 60_000;

/** Serves an endpoint over HTTP/1.1. */
export class HttpServer {
  readonly #server: Server;

  constructor(endpoint: CallServer) {
    this.#server = createServer((request, response) => {
      void answer(endpoint, request, response);
    });
    this.#server.maxConnections = MAX_CONNECTIONS;
    this.#server.keepAliveTimeout = KEEP_ALIVE_MS;
    this.#server.headersTimeout = HEAD_MS;
    this.#server.requestTimeout = REQUEST_MS;
  }

  /** Returns the port. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      // Exclusive: the processes of the cluster module would otherwise share the port, but each has its own secret.
      this.#server.listen({ host, port, exclusive: true }, () => {
        this.#server.off("error", reject);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => {
        resolve();
      });
      this.#server.closeAllConnections();
    });
  }
}

async function answer(endpoint: CallServer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  let outgoing: Outgoing;
  try {
    outgoing = await endpoint.serve(incoming(request));
  } catch (error) {
    if (!(error instanceof OverloadedError)) {
      // The body was cut off or too slow.
      request.destroy();
      return;
    }
    outgoing = { status: 503 };
  }
  const { status, body } = outgoing;
  response.writeHead(status, {
    ...(body === undefined ? {} : { "Content-Type": CONTENT_TYPE }),
    ...(status === 204 ? {} : { "Content-Length": body?.length ?? 0 }),
    // The rest of an unread body would look like the next request.
    ...(request.complete ? {} : { Connection: "close" }),
  });
  response.end(body);
}

function incoming(request: IncomingMessage): Incoming {
  const { method = "", url = "", headers } = request;
  return {
    method,
    path: url,
    header: (name) => {
      const value = headers[name];
      return typeof value === "string" ? value : undefined;
    },
    body: (maxBytes) => bodyOf(request, Number(headers["content-length"] ?? 0), maxBytes),
  };
}
