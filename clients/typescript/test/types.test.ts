/** Code that compiles, and code that must not: `tsc` fails if an expected error is missing. */

import { test } from "node:test";
import { Worker, chain, task, type Job, type JobHandle, type JobOptions, type Task } from "jqmaster-sdk";
import type { JobRequest } from "#dist/wire/protocol.js";
import type { CamelCase } from "#dist/wire/names.js";

type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : never) : never;
const isTrue = <Value extends true>(): Value | undefined => undefined;

const resize = task<{ photoId: number; size?: number }, { width: number }>("photo.resize", { timeout: 600 }, async ({ photoId, size = 320 }, ctx) => {
  ctx.progress(photoId / 2);
  return { width: size };
});
const sweep = task<void, number>("sweep", () => 1);

/** Never called: only its types count. */
export async function checked(): Promise<void> {
  const handle: JobHandle<{ width: number }> = await resize.enqueue({ photoId: 42 });
  const { width } = await handle.result({ wait: 10 });
  isTrue<Same<typeof width, number>>();
  await sweep.enqueue();
  const many: JobHandle<{ width: number }>[] = await resize.with({ delay: 60, priority: -5 }).many([{ photoId: 42 }]);
  const last = (await chain(sweep.job(), resize.job({ photoId: 42 })).enqueue()).last;
  isTrue<Same<Awaited<ReturnType<typeof last.result>>, { width: number }>>();
  const job: Job<number> = sweep.job();
  new Worker({ tasks: [resize, sweep, resize.with({ priority: 1 })] });

  // @ts-expect-error an argument is missing
  await resize.enqueue();
  // @ts-expect-error an argument has another type
  await resize.enqueue({ photoId: "42" });
  // @ts-expect-error there is no such argument
  await resize.enqueue({ photoId: 42, colour: "red" });
  // @ts-expect-error there is no such option
  resize.with({ max_retry: 3 });
  // @ts-expect-error an option has another type
  resize.with({ timeout: "10s" });
  // @ts-expect-error the result has another type
  const wrong: { width: string } = await handle.result();
  // @ts-expect-error a task cannot set the ID of its jobs
  task("a", { id: "x" });
  // @ts-expect-error the handler returns another type
  task<void, number>("a", () => "text");
  // @ts-expect-error a worker needs tasks
  new Worker({});
  // @ts-expect-error the context has no such method
  task("a", (_, ctx) => ctx.nothing());
  // @ts-expect-error a handle of another task
  const other: JobHandle<string> = handle;
  void [many, job, wrong, other];
}

// Every field of a job on the wire has an option, and no option lacks a field.
type Fields = CamelCase<Exclude<keyof JobRequest, "name" | "argument">>;
isTrue<Same<Fields, keyof JobOptions>>();
isTrue<Same<Parameters<Task<{ a: number }>["enqueue"]>, [args: { a: number }]>>();

test("the types are as they are meant", () => undefined);
