/** Adapts the endpoint to servers with handlers that take a `Request` and return a `Response`. */

import { CONTENT_TYPE } from "../wire/msgpack.js";
import { OverloadedError, bodyOf } from "./bodies.js";
import type { CallServer, Incoming } from "./endpoint.js";

/** Returns the answer to a master's call. */
export async function answerTo(endpoint: CallServer, request: Request): Promise<Response> {
  try {
    const { status, body } = await endpoint.serve(incoming(request));
    return new Response(body ?? null, { status, headers: body === undefined ? {} : { "Content-Type": CONTENT_TYPE } });
  } catch (error) {
    return new Response(null, { status: error instanceof OverloadedError ? 503 : 400 });
  }
}

function incoming(request: Request): Incoming {
  const { pathname, search } = new URL(request.url);
  return {
    method: request.method,
    path: pathname + search,
    header: (name) => request.headers.get(name) ?? undefined,
    body: (maxBytes) => bodyOf(request.body ?? nothing(), Number(request.headers.get("content-length") ?? 0), maxBytes),
  };
}

async function* nothing(): AsyncGenerator<Uint8Array> {
  // A missing body counts as an empty one.
}
