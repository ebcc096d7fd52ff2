// A worker in a process of its own. Its jobs say which fault the process gets.
import { setTimeout as sleep } from "node:timers/promises";
import cluster from "node:cluster";
import { Worker, task } from "jqmaster-sdk";

const name = process.env["NAME"] ?? "fault";

const fault = task<{ fault: string; seconds: number }>(name, async ({ fault: kind, seconds }, ctx) => {
  // The next attempt runs without the fault.
  if (ctx.attempt > 1) return { attempt: ctx.attempt };
  switch (kind) {
    case "exit":
      process.exit(7);
      break;
    case "rejection":
      void Promise.reject(new Error("nobody catches this"));
      await sleep(10_000);
      break;
    case "block": {
      // Block the event loop without using CPU time, as a computation would.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
      // Let due timers run first.
      await sleep(50);
      break;
    }
    case "who":
      await sleep(300);
      return process.pid;
  }
  return { attempt: ctx.attempt };
});

if (process.env["CLUSTER"] !== undefined && cluster.isPrimary) {
  for (let count = 0; count < 2; count++) cluster.fork();
  process.on("SIGTERM", () => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill("SIGTERM");
  });
} else {
  await new Worker({ tasks: [fault], grace: 1 }).listen();
}
