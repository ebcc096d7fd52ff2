/** Functions that several tests use. */

import { Worker, configure, type AnyTask, type WorkerOptions } from "jqmaster-sdk";

export const MASTER = process.env["JQMASTER_URL"] ?? "";
/** Tests with a live master are skipped without one. */
export const LIVE = { skip: MASTER === "" ? "needs a live master: set JQMASTER_URL" : false, timeout: 120_000 };

/** A logger that drops all messages of a worker. */
export const SILENT = { info: () => undefined, warn: () => undefined, error: () => undefined };

if (MASTER !== "") configure({ master: MASTER });

/** Returns a name that no other test uses. */
export function unique(name: string): string {
  return `${name}.${process.pid}.${performance.now().toString(36).replace(".", "")}`;
}

/** Runs a function while a worker runs tasks. */
export async function withWorker(tasks: readonly AnyTask[], run: (worker: Worker) => Promise<void>, options: Partial<WorkerOptions> = {}): Promise<void> {
  const worker = new Worker({ tasks, master: MASTER, signals: false, logger: SILENT, grace: 1, ...options });
  await worker.listen();
  try {
    await run(worker);
  } finally {
    await worker.stop();
  }
}

/** Waits until a condition is true. */
export async function until(isSo: () => boolean | Promise<boolean>, forMs = 60_000): Promise<void> {
  const endMs = performance.now() + forMs;
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error("it did not become so in time");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
