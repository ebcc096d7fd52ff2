// The worker that `jqmaster conformance worker --run "node clients/typescript/conformance.mjs"` tests. With PULL=1, it
// pulls.
import { setTimeout as sleep } from "node:timers/promises";
import { Fail, Worker, task } from "jqmaster-sdk";

const tasks = [
  task("conformance.echo", (argument) => argument),
  task("conformance.sleep", (seconds, { signal }) => sleep(seconds * 1000, null, { signal })),
  task("conformance.fail", ({ message, retry }) => {
    throw retry ? new Error(message) : new Fail(message);
  }),
];

await new Worker({ tasks, maxJobs: 4, pull: Boolean(process.env.PULL), grace: 2 }).listen();
