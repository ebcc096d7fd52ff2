/** The endpoint of a worker to which masters push. It answers their calls in any server. */

import { setTimeout as sleep } from "node:timers/promises";
import { CONTENT_TYPE, decode, encode } from "../wire/msgpack.js";
import type { WorkerStatus } from "../wire/protocol.js";
import { MalformedError, fieldsOf } from "../wire/raw.js";
import { isInteger, pushAnswer, type Offers } from "./offers.js";
import type { Runner } from "./runner.js";
import { Signatures, proofOf, type SignedHead } from "./signatures.js";
import type { WorkerState } from "./state.js";

const MAX_BODY_BYTES = 32 * 1024 * 1024;
const MAX_CHALLENGE_BYTES = 1024;
/** How long a push waits for a registration in progress, because it may arrive before the registration's answer. */
const REGISTRATION_MS = 2_000;

/** A call, from any server. */
export interface Incoming extends SignedHead {
  /** Returns the body; undefined if it has more than `maxBytes`. Throws if the body is incomplete. */
  body(maxBytes: number): Promise<Uint8Array | undefined>;
}

/** An answer. */
export interface Outgoing {
  readonly status: number;
  readonly body?: Uint8Array<ArrayBuffer>;
}

type Fields = ReadonlyMap<string, Uint8Array>;

/** Serves the calls of masters. */
export interface CallServer {
  serve(call: Incoming): Promise<Outgoing>;
}

/** Passes each call to the endpoint of its namespace, which the path of the worker's URL names. */
export class NamespaceEndpoints implements CallServer {
  constructor(private readonly endpoints: readonly Endpoint[]) {}

  async serve(call: Incoming): Promise<Outgoing> {
    return (await this.endpoints.find(({ prefix }) => call.path.startsWith(`${prefix}/`))?.serve(call)) ?? { status: 404 };
  }
}

/** Serves the calls of masters to a worker in one namespace. */
export class Endpoint implements CallServer {
  readonly #signatures: Signatures;

  constructor(
    private readonly state: WorkerState,
    private readonly offers: Offers,
    private readonly runner: Runner,
  ) {
    this.#signatures = new Signatures(state);
  }

  /** The path of the worker's URL, without a trailing slash. */
  prefix = "";

  async serve(call: Incoming): Promise<Outgoing> {
    if (!call.path.startsWith(`${this.prefix}/`)) return { status: 404 };
    const path = call.path.slice(this.prefix.length);
    if (path === "/ping") return { status: call.method === "GET" ? 204 : 405 };
    if (path === "/challenge") return call.method === "POST" ? this.#prove(await call.body(MAX_CHALLENGE_BYTES)) : { status: 405 };
    const canceled = /^\/jobs\/([^/]+)\/cancel$/.exec(path)?.[1];
    const isOrder = canceled !== undefined || ["/jobs", "/drain", "/resume", "/detach"].includes(path);
    if (!isOrder && path !== "/status") return { status: 404 };
    if (call.method !== (isOrder ? "POST" : "GET")) return { status: 405 };
    return this.#verified(call, (body) => {
      if (path === "/status") return answered(this.#status());
      return this.#ordered(path, canceled, call.header("content-type"), body);
    });
  }

  async #verified(call: Incoming, serve: (body: Uint8Array) => Outgoing): Promise<Outgoing> {
    const { registering } = this.state;
    if (registering !== undefined) await Promise.race([registering, sleep(REGISTRATION_MS, undefined, { ref: false })]);
    if (!this.#signatures.isPlausible(call, this.state.member?.id)) return { status: 401 };
    const body = await call.body(MAX_BODY_BYTES);
    if (body === undefined) return { status: 413 };
    return this.#signatures.isSigned(call, body) ? serve(body) : { status: 401 };
  }

  #prove(body: Uint8Array | undefined): Outgoing {
    if (body === undefined) return { status: 413 };
    let fields: unknown;
    try {
      fields = decode(body);
    } catch {
      return { status: 400 };
    }
    const proof = proofOf((fields as { nonce?: unknown } | null)?.nonce, this.state.secret);
    return proof === undefined ? { status: 422 } : answered({ proof });
  }

  #ordered(path: string, canceled: string | undefined, contentType: string | undefined, body: Uint8Array): Outgoing {
    if (contentType?.split(";")[0]?.trim().toLowerCase() !== CONTENT_TYPE) return { status: 415 };
    let fields: Fields | undefined;
    try {
      fields = fieldsOf(body);
    } catch (error) {
      if (error instanceof MalformedError) return { status: 400 };
      throw error;
    }
    if (fields === undefined) return { status: 422 };
    if (path === "/jobs") return this.#offered(fields);
    const epoch = valueOf(fields, "epoch") ?? this.state.epoch;
    if (!isInteger(epoch)) return { status: 422 };
    if (epoch < this.state.epoch) return { status: 409 };
    this.state.noteEpoch(epoch);
    return canceled === undefined ? this.#told(path) : this.#canceled(canceled, valueOf(fields, "token"));
  }

  #offered(fields: Fields): Outgoing {
    if (valueOf(fields, "worker_id") !== this.state.member?.id) return { status: 422 };
    const judged = this.offers.judge(valueOf(fields, "epoch"), fields.get("jobs"));
    return judged === undefined ? { status: 422 } : answered(pushAnswer(judged));
  }

  #told(path: string): Outgoing {
    if (path !== "/detach") this.state.drainOrdered = path === "/drain";
    // The worker obeys only the answer to the next heartbeat, which says the same.
    this.state.beat.ring();
    return answered({});
  }

  #canceled(jobId: string, token: unknown): Outgoing {
    const claim = typeof token === "string" ? this.state.claims.get(token) : undefined;
    if (claim?.job.job_id !== jobId || !claim.isRunning) return { status: 404 };
    this.runner.stop(claim, "canceled");
    return answered({});
  }

  #status(): WorkerStatus {
    const { state } = this;
    return {
      worker_id: state.registered.id,
      running: state.claims.named.filter(({ isOwed }) => isOwed).map(({ ref }) => ref),
      free: state.room,
      max_jobs: state.maxJobs,
      names: [...state.tasks.keys()],
      draining: state.isDraining,
    };
  }
}

function answered(value: object): Outgoing {
  return { status: 200, body: encode(value) };
}

/** Returns the value of a field; undefined if it is missing or cannot be decoded. */
function valueOf(fields: Fields, name: string): unknown {
  const bytes = fields.get(name);
  try {
    return bytes === undefined ? undefined : decode(bytes);
  } catch {
    return undefined;
  }
}
