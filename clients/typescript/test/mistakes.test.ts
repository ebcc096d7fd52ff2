/**
 * Mistakes in options, which the compiler does not see in JavaScript. Each mistake is an error that says what is meant.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as sdk from "jqmaster-sdk";
import * as testing from "jqmaster-sdk/testing";

// As in JavaScript, where nothing has a type.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Untyped = Record<string, any>;
const { Pusher, Worker, Defer, Retry, CodedError, task, configure, batch, group, chain, chord, challengeTask } = sdk as Untyped;
const { recording, inline, drain } = testing as Untyped;

const resize = task("photo.resize", { keepResult: true }, () => 1);
class Order {
  challenge(): void {
    /* hands the work over */
  }
}

/** For each public function and class, a call with a wrong option, and the text of the error. */
const MISTAKES: Readonly<Record<string, readonly (readonly [call: () => unknown, message: RegExp])[]>> = {
  Pusher: [
    [() => new Pusher({ url: "http://127.0.0.1:9999" }), /^not an option of Pusher: url \(did you mean master\?\)$/],
    [() => new Pusher("http://127.0.0.1:9999"), /^Pusher takes its options as an object, such as \{ master: "http:\/\/127.0.0.1:8080" \}, not a text$/],
    [() => new Pusher({ masters: [] }), /masters \(did you mean master\?\)/],
    [() => new Pusher({ maxWait: "3" }), /^Pusher: maxWait must be a number, not a text$/],
    [() => new Pusher({}).enqueue("x.y", {}, { countdown: 3 }), /^not an option of enqueue: countdown \(did you mean delay\?\)$/],
    [() => new Pusher({}).enqueueMany([], { delay: 3 }), /delay \(an option of jobs: give delay to the task, or to its method with\)/],
    [() => new Pusher({}).enqueueMany([resize]), /^not a job: give what task\.job\(…\) returns$/],
    [() => new Pusher({}).get("x"), /^Pusher has no get: did you mean handle\(id\)\.result\?$/],
    [() => new Pusher({}).push("x.y"), /^Pusher has no push: did you mean enqueue\?$/],
    [() => new Pusher({}).handle(42), /^handle: the ID of the job must be a text, not undefined$/],
    [() => new Pusher({}).enqueue(undefined), /^enqueue: the task, or its name, must be a text, not undefined$/],
  ],
  configure: [
    [() => configure("http://127.0.0.1:9999"), /^configure takes its options as an object/],
    [() => configure({ masterUrl: "http://127.0.0.1:9999" }), /^not an option of configure: masterUrl/],
  ],
  Worker: [
    [() => new Worker({ tasks: [resize], concurrency: 3 }), /^not an option of Worker: concurrency \(did you mean maxJobs\?\)$/],
    [() => new Worker({ handlers: [resize] }), /^not an option of Worker: handlers \(did you mean tasks\?\)$/],
    [() => new Worker({}), /^a worker needs a task: give them as tasks: \[resize\]$/],
    [() => new Worker({ tasks: resize }), /^Worker: tasks must be a list, not an object$/],
    [() => new Worker({ tasks: [() => 1] }), /^Worker: tasks must be a list of tasks from task\(…\)$/],
    [() => new Worker([resize]), /^Worker takes its options as an object, such as \{ tasks: \[resize\] \}, not a list$/],
    [() => new Worker({ tasks: [resize], maxJobs: "3" }), /^Worker: maxJobs must be a number, not a text$/],
    [() => new Worker({ tasks: [resize], timeout: 3 }), /timeout \(an option of jobs: give timeout to the task/],
    [() => new Worker({ tasks: [resize] }).listen(9000), /^listen takes its options as an object, .*port: 9000 \}, not a number$/],
    [() => new Worker({ tasks: [resize] }).run(), /^Worker has no run: did you mean listen/],
  ],
  task: [
    [() => task("a.b", { max_retries: 3 }), /^not an option of task: max_retries \(did you mean maxRetry\?\)$/],
    [() => task("a.b", { max_retry: 3 }), /max_retry \(did you mean maxRetry\?\)/],
    [() => task("a.b", { maxRetries: 3, colour: "red" }), /^not an option of task: maxRetries \(did you mean maxRetry\?\), colour$/],
    [() => task("a.b", { constructor: 1 }), /^not an option of task: constructor$/],
    [() => task("a.b", { id: "x" }), /^not an option of task: id/],
    [() => task("a.b", { timeout: "10s" }), /^task: timeout must be a number, not a text$/],
    [() => task("a.b", { retry: { base_s: 1 } }), /^not an option of retry: base_s \(did you mean baseS\?\)$/],
    [() => task("a.b", { queue: "low" }), /queue \(did you mean requires\? There are no queues: any worker/],
    [() => task("a.b", () => 1, { timeout: 10 }), /^task takes its options before the handler/],
    [() => task("a.b", "fast"), /^task takes its options as an object, such as \{ delay: 60 \}, not a text$/],
    [() => task("a.b", {}, "handler"), /^task: the handler must be a function, not a text$/],
    [() => task(() => 1), /^task: the name of the jobs must be a text, not a function$/],
  ],
  Task: [
    [() => resize.enqueue({}, { delay: 3 }), /^enqueue takes one argument, .*task\.with\(\{ delay: 60 \}\)\.enqueue\(argument\)$/],
    [() => resize.job({}, { delay: 3 }), /^job takes one argument/],
    [() => resize.with({ countdown: 3 }), /^not an option of with: countdown \(did you mean delay\?\)$/],
    [() => resize.with({ after: { job: ["a"] } }).job(), /its ID must be a text, not undefined$/],
    [() => resize.with({ after: { jobs: ["a"], on: "x" } }).job(), /^not an option of after: on$/],
    [() => resize.many([{}], { inOneCal: true }), /inOneCal \(did you mean inOneCall\?\)/],
    [() => resize.using({ delay: 3 }), /^Task has no using: did you mean with\?$/],
    [() => resize.delay({}), /^Task has no delay: did you mean enqueue/],
  ],
  JobHandle: [
    [() => resize.handle("x").result(10), /^result takes its options as an object, such as \{ wait: 10 \}, not a number$/],
    [() => resize.handle("x").result({ timeout: 10 }), /^not an option of result: timeout \(did you mean wait\?\)$/],
    [() => resize.handle("x").get(), /^JobHandle has no get: did you mean result\?$/],
  ],
  batch: [
    [() => batch({ on_success: 1 }, () => 1), /on_success \(did you mean onSuccess\?\)/],
    [() => batch(() => 1), /^batch takes its options as an object, .* not a function$/],
    [() => batch({}), /^batch: the second argument, which enqueues the members, must be a function, not undefined$/],
    [() => batch({ onSuccess: resize }, () => 1), /^not a job/],
  ],
  chain: [[() => chain([resize.job({})]), /^not a job/]],
  group: [[() => group(resize), /^not a job/]],
  chord: [[() => chord(resize.job({}), resize.job({})), /^chord: the first argument must be a list, not an object$/]],
  challengeTask: [
    [() => challengeTask("a.b", { answer_within: 3 }, Order), /answer_within \(did you mean answerWithin\?\)/],
    [() => challengeTask("a.b", Order), /^challengeTask takes its options as an object, .* not a function$/],
    [() => challengeTask("a.b", {}), /^challengeTask: the class must be a function, not undefined$/],
  ],
  Defer: [
    [() => new Defer({ retryAfter: 3 }), /^Defer: the seconds must be a number, not an object$/],
    [() => new Defer(3, "the disk is full"), /^Defer takes its options as an object, such as \{ reason: "the disk is full" \}, not a text$/],
    [() => new Defer(3, { hold: { name: "farm" } }), /^not an option of hold: name$/],
  ],
  Retry: [
    [() => new Retry({ after: 3 }), /^Retry: the message must be a text, not an object$/],
    [() => new Retry("busy", { delay: 3 }), /^not an option of Retry: delay$/],
  ],
  CodedError: [
    [() => new CodedError("A", { retries: true }), /^CodedError: the message must be a text, not an object$/],
    [() => new CodedError("A", "a", { retry: true }), /retry/],
  ],
  recording: [[() => recording(), /^recording: the argument must be a function, not undefined$/]],
  inline: [[() => inline(() => 1, { raise: false }), /^not an option of inline and drain: raise \(did you mean raises\?\)$/]],
  drain: [[() => drain([], { task: [] }), /task \(did you mean tasks\?\)/]],
};

/** Public names without options: errors that the package throws, and objects that it makes itself. */
const WITHOUT_OPTIONS: ReadonlySet<string> = new Set([
  "AnswerMismatchError", "Batch", "Callback", "Challenged", "CheckpointNotSaved", "Discard", "Fail", "Flow", "FlowHandles", "Job",
  "JobCanceled", "JobDiscarded", "JobFailed", "JobSkipped", "JqmasterError", "NoResultError", "NotFinished", "NotUniqueError",
  "RefusedError", "ResultGone", "ResultNotKept", "UnavailableError", "newId",
]);

test("each public function and class that takes options is in the table", () => {
  const names = new Set([...Object.keys(sdk), ...Object.keys(testing)]);
  assert.deepEqual([...names].filter((name) => !(name in MISTAKES) && !WITHOUT_OPTIONS.has(name)), []);
  assert.deepEqual(Object.keys(MISTAKES).filter((name) => !names.has(name)), []);
});

for (const [name, mistakes] of Object.entries(MISTAKES)) {
  test(`${name} refuses what it does not take`, async () => {
    for (const [call, message] of mistakes) {
      await assert.rejects(
        async () => {
          await call();
        },
        (error) => {
          assert(error instanceof TypeError, String(error));
          assert.match(error.message, message);
          return true;
        },
      );
    }
  });
}

test("a handler gets the same errors from its context", async () => {
  const refused: string[] = [];
  const noted = (error: unknown) => refused.push((error as Error).message);
  const asking = sdk.task("asking", { keepResult: true }, async (_, ctx) => {
    const { openChallenge, enqueue, observed } = Object.getPrototypeOf(ctx) as Untyped;
    await openChallenge.call(ctx, { timeout: 3 }).catch(noted);
    await enqueue.call(ctx, "x.y", {}, { countdown: 3 }).catch(noted);
    try {
      observed.call(ctx, "openai", { remaining: 1, resets_s: 1 });
    } catch (error) {
      noted(error);
    }
  });
  await testing.inline(() => asking.enqueue({}));
  assert.deepEqual(refused, [
    "not an option of openChallenge: timeout (did you mean answerWithin?)",
    "not an option of enqueue: countdown (did you mean delay?)",
    "not an option of observed: resets_s (did you mean resetsS?)",
  ]);
});

test("null leaves an option of a job to the master, and undefined is no option", () => {
  const job = task("a.b", { delay: null, retry: null, tags: undefined }).with({ batch: null }).job({});
  assert.deepEqual({ ...job.request, id: "" }, { id: "", name: "a.b", argument: {}, delay: null, retry: null, batch: null });
});
