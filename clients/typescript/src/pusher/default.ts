/** The pusher of tasks: the program's, or in a test the test kit's. */

import { AsyncLocalStorage } from "node:async_hooks";
import type { Backend } from "./backend.js";
import { check, checkedOptions } from "../checks/options.js";
import { PUSHER_KINDS, Pusher, type PusherOptions } from "./pusher.js";

const OPTIONS = checkedOptions("configure", PUSHER_KINDS, '{ master: "http://127.0.0.1:8080" }');
const substitutes = new AsyncLocalStorage<Backend>();
let options: PusherOptions = {};
let pusher: Pusher | undefined;

/**
 * Sets the master, the token and the namespace that tasks use. Without this call, they use `JQMASTER_URL`,
 * `JQMASTER_TOKEN` and `JQMASTER_NAMESPACE`.
 *
 * @example
 * ```ts
 * configure({ master: "http://10.0.0.1:8080", token: await readFile("token", "utf8") });
 * ```
 */
export function configure(changed: PusherOptions): void {
  check(OPTIONS, changed);
  options = changed;
  pusher = undefined;
}

/** Returns the receiver to which tasks send their jobs now. */
export function backend(): Backend {
  return substitutes.getStore() ?? (pusher ??= new Pusher(options));
}

/** Runs a function with another receiver for the jobs of tasks, including the functions that it calls. */
export function withBackend<Value>(other: Backend, run: () => Value): Value {
  return substitutes.run(other, run);
}
