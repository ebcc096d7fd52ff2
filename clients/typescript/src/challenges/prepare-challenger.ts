/** Work that another system does: check whether it can begin, hand it over, and receive the answer. */

import { check, checkValue, without } from "../checks/options.js";
import { CodedError, Challenged, Defer, NotReady, kindOf, orderOf } from "../errors/orders.js";
import { jobOptions } from "../pusher/options.js";
import { TASK_KINDS, Task, task, type TaskOptions } from "../tasks/task.js";
import type { Callback, Context, JobLog } from "../worker/context.js";

/** The codes with which jobs are retried by default. */
const RETRY_CODES: readonly string[] = ["TEMPORARY_UNAVAILABLE", "RESOURCE_CONFLICT", "NETWORK_ERROR"];
const ASK_AGAIN_S = 30;
const MAX_WAIT_S = 300;

/**
 * The argument of `challenge`: the address at which the other system answers, and the data for the call.
 *
 * @example
 * ```ts
 * async challenge({ args, callbackUrl, idempotencyKey, signal }: ChallengeContext<OrderArgs>) {
 *   await fetch("https://shop.example/orders", {
 *     method: "POST",
 *     headers: { "Idempotency-Key": idempotencyKey },
 *     body: JSON.stringify({ ...args, callbackUrl }),
 *     signal,
 *   });
 * }
 * ```
 */
export interface ChallengeContext<Args> {
  readonly args: Args;
  /** The secret that an answer to the challenge must contain. It is valid for this attempt. */
  readonly requestId: string;
  /** The address at which the other system posts its answer. */
  readonly callbackUrl: string;
  /** A key that is the same in all attempts. With it, the other system can recognize a repeated call. */
  readonly idempotencyKey: string;
  readonly attempt: number;
  /** Aborted when the phase is to stop. */
  readonly signal: AbortSignal;
  readonly log: JobLog;
}

/**
 * A job for which another system does the work. One object serves one run: its constructor gets the argument.
 *
 * @typeParam Args The argument of the job.
 * @typeParam Answer The JSON value that the other system posts.
 * @typeParam Result The result of the job. Default: the answer.
 *
 * @example
 * ```ts
 * class Order implements PrepareChallenger<OrderArgs, OrderResult> {
 *   retryCodes = ["TEMPORARY_UNAVAILABLE", "RESOURCE_CONFLICT", "NETWORK_ERROR"];
 *   constructor(private readonly args: OrderArgs) {}
 *
 *   async prepare() {
 *     return (await shop.openOrders()) < 5 || new Defer(30, { reason: "the shop is full" });
 *   }
 *   async challenge(ctx: ChallengeContext<OrderArgs>) {
 *     await shop.place(this.args.order, ctx.requestId, ctx.callbackUrl);
 *   }
 *   onCallback(result: OrderResult) {
 *     if (result.error) throw new CodedError(result.error);
 *     return result;
 *   }
 * }
 * ```
 */
export interface PrepareChallenger<Args, Answer, Result = Answer> {
  /** The codes of `CodedError` after which the job is retried. All other codes are final. */
  readonly retryCodes?: readonly string[];

  /**
   * Checks whether the work can begin. False or a `Defer` means that `prepare` is called again later, without using a
   * retry. The default returns true.
   */
  prepare?(ctx: Context): boolean | Defer | Promise<boolean | Defer>;

  /** Hands the work over, and sends `ctx.callbackUrl` to the other system. */
  challenge(ctx: ChallengeContext<Args>): unknown;

  /** Decides the outcome from the answer: returns the result of the job, or throws as in any handler. */
  onCallback(result: Answer, ctx: Context): Result | Promise<Result>;
}

/**
 * Options of `challengeTask`, in seconds.
 *
 * @example
 * ```ts
 * challengeTask("order.place", { answerWithin: 3600, challengeTimeout: 10, notReadyFor: 600 }, Order);
 * ```
 */
export interface ChallengeTaskOptions extends Omit<TaskOptions, "retryCodes"> {
  /** Seconds to wait for the callback. If none comes, the attempt fails. Default: a day. */
  readonly answerWithin?: number;
  /** Timeout of `prepare`. Default: the timeout of the job. */
  readonly prepareTimeout?: number;
  /** Timeout of `challenge`. Default: the timeout of the job. */
  readonly challengeTimeout?: number;
  /** Timeout of `onCallback`. Default: the timeout of the job. */
  readonly callbackTimeout?: number;
  /** Longest wait between two calls of `prepare`. Each wait is twice as long as the previous one. Default 300. */
  readonly maxWait?: number;
  /** Time after which a job that was never ready fails with the cause `not_ready`. Default: no limit. */
  readonly notReadyFor?: number;
}

const OPTIONS = jobOptions<ChallengeTaskOptions>("challengeTask", {
  ...without(TASK_KINDS, "retryCodes"),
  answerWithin: "a number",
  prepareTimeout: "a number",
  challengeTimeout: "a number",
  callbackTimeout: "a number",
  maxWait: "a number",
  notReadyFor: "a number",
});

/** The class of jobs for which another system does the work. */
export type PrepareChallengerClass<Args, Answer, Result> = new (args: Args) => PrepareChallenger<Args, Answer, Result>;

/**
 * Defines a task for which another system does the work. The worker is free while the other system works.
 *
 * @param name The name of the jobs.
 * @param Challenger The class of the jobs. Each run makes an object of it.
 *
 * @example
 * ```ts
 * const placeOrder = challengeTask<OrderArgs, OrderResult>("order.place", { answerWithin: 86_400 }, Order);
 * await placeOrder.enqueue({ order: 7 });
 * ```
 */
export function challengeTask<Args, Answer, Result = Answer>(
  name: string,
  options: ChallengeTaskOptions,
  Challenger: PrepareChallengerClass<Args, Answer, Result>,
): Task<Args, Result> {
  check(OPTIONS, options);
  checkValue("challengeTask", "the class", Challenger, "a function");
  const { answerWithin, prepareTimeout, challengeTimeout, callbackTimeout, maxWait = MAX_WAIT_S, notReadyFor, ...others } = options;
  const limits = { maxWaitS: maxWait, forS: notReadyFor };

  async function run(args: Args, ctx: Context): Promise<Result> {
    const challenger = new Challenger(args);
    try {
      const [callback] = ctx.callbacks;
      if (callback !== undefined) {
        return await within(callbackTimeout, "onCallback", ctx, () => challenger.onCallback(answerIn(callback) as Answer, ctx));
      }
      checkReady(await within(prepareTimeout, "prepare", ctx, () => challenger.prepare?.(ctx) ?? true), limits);
      // Open the challenge before the call, so that no callback can come too early.
      const { requestId, callbackUrl } = await ctx.openChallenge(answerWithin === undefined ? {} : { answerWithin });
      await within(challengeTimeout, "challenge", ctx, (signal) =>
        challenger.challenge({ args, requestId, callbackUrl, idempotencyKey: ctx.jobId, attempt: ctx.attempt, signal, log: ctx.log }),
      );
      throw new Challenged(requestId);
    } catch (error) {
      throw decided(error, challenger.retryCodes ?? RETRY_CODES);
    }
  }

  return task<Args, Result>(name, others, run);
}

function checkReady(ready: boolean | Defer, limits: NotReady["limits"]): void {
  if (ready === true) return;
  const { retryAfter, reason } = ready === false ? { retryAfter: ASK_AGAIN_S, reason: "" } : ready;
  throw new NotReady(retryAfter, reason, limits);
}

/** Decides by the codes of the object whether a job is retried, because the worker knows only the codes of the task. */
function decided(error: unknown, retryCodes: readonly string[]): unknown {
  const order = orderOf(error);
  if (order === undefined || kindOf(order) !== "coded") return error;
  const { code, message, retries = retryCodes.includes(code) } = order as CodedError;
  return new CodedError(code, message, { retries });
}

function answerIn(callback: Callback): unknown {
  if (!/json/i.test(callback.contentType)) throw new TypeError(`the callback is not JSON, but ${JSON.stringify(callback.contentType)}`);
  return callback.json();
}

async function within<Value>(
  timeoutS: number | undefined,
  phase: string,
  ctx: Context,
  run: (signal: AbortSignal) => Value | Promise<Value>,
): Promise<Value> {
  if (timeoutS === undefined) return run(ctx.signal);
  const phaseOver = new AbortController();
  const timer = setTimeout(() => {
    phaseOver.abort(new DOMException(`${phase} did not end within ${timeoutS} s`, "TimeoutError"));
  }, timeoutS * 1000);
  try {
    const over = new Promise<never>((_, reject) => {
      phaseOver.signal.addEventListener("abort", () => {
        reject(phaseOver.signal.reason as Error);
      });
    });
    return await Promise.race([run(AbortSignal.any([ctx.signal, phaseOver.signal])), over]);
  } finally {
    clearTimeout(timer);
  }
}
