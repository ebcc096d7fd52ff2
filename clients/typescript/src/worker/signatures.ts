/** Signatures: the worker checks the signatures of masters' calls, and proves its own address. */

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { steadyMs } from "./clocks.js";

/** How far the timestamp of a call may be from the wall clock, in either direction. */
const MAX_AGE_MS = 300_000;
const MAX_NONCES = 100_000;
/** The same key signs calls. So a nonce with line feeds could be the text of a call that an attacker wants signed. */
const CHALLENGE_NONCE = /^[A-Za-z0-9_-]{16,128}$/;

/** The fields of a signed call. */
export interface SignedHead {
  readonly method: string;
  /** The raw path, including the path of the worker's URL. */
  readonly path: string;
  header(name: string): string | undefined;
}

/** Returns the proof of the address; undefined for a nonce that must not be signed. */
export function proofOf(nonce: unknown, secret: string): string | undefined {
  if (typeof nonce !== "string" || !CHALLENGE_NONCE.test(nonce)) return undefined;
  return createHmac("sha256", secret).update(nonce).digest("hex");
}

/** Checks the signatures of calls. */
export class Signatures {
  // Only nonces of correctly signed calls: otherwise, a forger could use up the nonce of a real call.
  readonly #nonces = new Map<string, number>();

  constructor(private readonly registered: { readonly secret: string }) {}

  /** Returns whether the head may belong to a signed call. The body is not read yet. */
  isPlausible(head: SignedHead, workerId: string | undefined): boolean {
    const { worker, timestamp, nonce, signature } = partsOf(head);
    return (
      worker === workerId &&
      /^\d{1,16}$/.test(timestamp) &&
      Math.abs(Date.now() - Number(timestamp)) <= MAX_AGE_MS &&
      /^[!-~]{8,128}$/.test(nonce) &&
      /^v1=[0-9a-f]{64}$/.test(signature)
    );
  }

  /** Returns whether a plausible call has a valid signature and a new nonce. */
  isSigned(head: SignedHead, body: Uint8Array): boolean {
    const { worker, timestamp, nonce, signature } = partsOf(head);
    const digest = createHash("sha256").update(body).digest("hex");
    const text = [head.method, head.path, worker, timestamp, nonce, digest].join("\n");
    const expected = `v1=${createHmac("sha256", this.registered.secret).update(text).digest("hex")}`;
    if (!timingSafeEqual(Buffer.from(expected), Buffer.from(signature))) return false;
    return this.#isFirst(nonce);
  }

  #isFirst(nonce: string): boolean {
    const nowMs = steadyMs();
    for (const [old, atMs] of this.#nonces) {
      // A timestamp may be up to MAX_AGE_MS ahead, and stays valid until MAX_AGE_MS after it.
      if (atMs > nowMs - 2 * MAX_AGE_MS) break;
      this.#nonces.delete(old);
    }
    // When the memory is full, refuse calls instead of forgetting nonces.
    if (this.#nonces.has(nonce) || this.#nonces.size >= MAX_NONCES) return false;
    this.#nonces.set(nonce, nowMs);
    return true;
  }
}

function partsOf(head: SignedHead): { worker: string; timestamp: string; nonce: string; signature: string } {
  const part = (name: string) => head.header(`x-jq-${name}`) ?? "";
  return { worker: part("worker"), timestamp: part("timestamp"), nonce: part("nonce"), signature: part("signature") };
}
