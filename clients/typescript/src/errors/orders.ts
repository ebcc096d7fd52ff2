/** Exceptions by which a handler decides how its job continues. */

import { check, checkValue, checkedOptions } from "../checks/options.js";

/** The constraint that a deferral closes for a time: its name, or its name and one value of its key. */
export type Hold = string | { readonly constraint: string; readonly key: unknown };

// A worker recognizes these exceptions from every copy of this package in the process, which `instanceof` does not.
const ORDER = Symbol.for("jqmaster-sdk.order");

interface DeferOptions {
  readonly reason?: string;
  readonly hold?: Hold;
}

interface RetryOptions {
  readonly after?: number;
}

interface CodedErrorOptions {
  readonly retries?: boolean;
}

const DEFER = checkedOptions<DeferOptions>("Defer", { reason: "a text", hold: "a text or an object" }, '{ reason: "the disk is full" }');
const HOLD = checkedOptions<Exclude<Hold, string>>("hold", { constraint: "a text", key: "anything" }, '{ constraint: "render-farm", key: "a" }');
const RETRY = checkedOptions<RetryOptions>("Retry", { after: "a number" }, "{ after: 30 }");
const CODED = checkedOptions<CodedErrorOptions>("CodedError", { retries: "true or false" }, "{ retries: true }");

/** A decision of the handler about its job. It does not report an error. */
abstract class Order extends Error {
  abstract readonly [ORDER]: string;
}

/**
 * Throw it in a handler to run the job again later. This does not count as a retry.
 *
 * @example
 * ```ts
 * throw new Defer(60, { reason: "the file is not there yet", hold: "render-farm" });
 * ```
 */
export class Defer extends Order {
  override name = "Defer";
  readonly [ORDER] = "defer";
  /** The constraint that also holds back its other jobs until then. */
  readonly hold: Hold | undefined;
  /** The reason, for people. */
  readonly reason: string;

  constructor(
    /** Seconds until the job may start again, up to 7 days. */
    readonly retryAfter: number,
    options: DeferOptions = {},
  ) {
    checkValue("Defer", "the seconds", retryAfter, "a number");
    check(DEFER, options);
    const { reason = "", hold } = options;
    if (typeof hold === "object") check(HOLD, hold);
    super(reason === "" ? `deferred for ${retryAfter} s` : reason);
    this.reason = reason;
    this.hold = hold;
  }
}

/**
 * Throw it in a handler to fail the attempt and retry the job, `after` seconds from now at the earliest.
 *
 * @example
 * ```ts
 * throw new Retry("the server is busy", { after: 30 });
 * ```
 */
export class Retry extends Order {
  override name = "Retry";
  readonly [ORDER] = "retry";
  /** Minimum seconds until the retry. Default: the backoff of the job. */
  readonly after: number | undefined;

  constructor(message = "the handler asked for a retry", options: RetryOptions = {}) {
    checkValue("Retry", "the message", message, "a text");
    check(RETRY, options);
    super(message);
    this.after = options.after;
  }
}

/**
 * Throw it in a handler to fail the job for good, even if retries are left.
 *
 * @example
 * ```ts
 * throw new Fail("there is no such photo");
 * ```
 */
export class Fail extends Order {
  override name = "Fail";
  readonly [ORDER] = "fail";
}

/**
 * Throw it in a handler when nothing is left to do, for instance because a record was deleted. The job ends at once as
 * `discarded`: no failure, no retry, no result.
 *
 * @example
 * ```ts
 * throw new Discard("the photo was deleted");
 * ```
 */
export class Discard extends Order {
  override name = "Discard";
  readonly [ORDER] = "discard";
}

/**
 * Throw it in a handler to fail the attempt with a code, by which programs and people recognize the failure. The job is
 * retried if the `retryCodes` of its task name the code, and fails for good otherwise. A task without `retryCodes`
 * retries.
 *
 * @example
 * ```ts
 * throw new CodedError("RESOURCE_CONFLICT", "somebody else edits the album");
 * ```
 */
export class CodedError extends Order {
  override name = "CodedError";
  readonly [ORDER] = "coded";
  /** Whether the job is retried. Undefined: the task decides. */
  readonly retries: boolean | undefined;

  constructor(
    /** The name of the failure, up to 64 characters. */
    readonly code: string,
    message = code,
    options: CodedErrorOptions = {},
  ) {
    checkValue("CodedError", "the code", code, "a text");
    checkValue("CodedError", "the message", message, "a text");
    check(CODED, options);
    super(message);
    this.retries = options.retries;
  }
}

/**
 * Throw it in a handler after `ctx.openChallenge()`, when another system has the work. The worker is then free. The
 * callback starts the handler again, with `ctx.callbacks`. A `PrepareChallenger` does this itself.
 *
 * @example
 * ```ts
 * const { requestId, callbackUrl } = await ctx.openChallenge();
 * await warehouse.ship(order, callbackUrl);
 * throw new Challenged(requestId);
 * ```
 */
export class Challenged extends Order {
  override name = "Challenged";
  readonly [ORDER] = "challenged";

  constructor(
    /** The `requestId` of the challenge. */
    readonly requestId: string,
  ) {
    super("another system has the work");
  }
}

/** The decision to call `prepare` of a `PrepareChallenger` again later. */
export class NotReady extends Order {
  override name = "NotReady";
  readonly [ORDER] = "not_ready";

  constructor(
    readonly retryAfter: number,
    readonly reason: string,
    readonly limits: { readonly maxWaitS: number; readonly forS: number | undefined },
  ) {
    super(reason === "" ? "not ready" : reason);
  }
}

/** Every decision that a handler can throw. */
export type HandlerOrder = Defer | Retry | Fail | Discard | CodedError | Challenged | NotReady;

/** Returns the decision that was thrown, by any copy of this package. Returns undefined for anything else. */
export function orderOf(thrown: unknown): HandlerOrder | undefined {
  return typeof thrown === "object" && thrown !== null && ORDER in thrown ? (thrown as HandlerOrder) : undefined;
}

/** Returns the kind of a decision. */
export function kindOf<Kind extends HandlerOrder>(order: Kind): Kind[typeof ORDER] {
  return order[ORDER];
}
