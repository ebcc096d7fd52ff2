/** A worker: it registers with the masters, takes jobs, runs them, and reports how they ended. */

import { check, checkedOptions } from "../checks/options.js";
import { suggestMethods } from "../checks/other-queues.js";
import { DEFAULT_NAMESPACE, NAMESPACE_PREFIX, inNamespace, movedTo, namespaceOf } from "../masters/namespaces.js";
import { environment } from "../pusher/environment.js";
import { JOB_OPTIONS } from "../pusher/options.js";
import type { PusherOptions } from "../pusher/pusher.js";
import type { AnyTask } from "../tasks/task.js";
import { NamespaceEndpoints, type CallServer } from "./endpoint.js";
import { answerTo } from "./fetch-handler.js";
import { HttpServer } from "./http-server.js";
import { NamespaceWorker, type CommonSettings, type Connection } from "./namespace-worker.js";
import { SharedSlots, checkedShares, slotsByNamespace, type NamespaceShares } from "./shared-slots.js";
import { Signals } from "./signals.js";
import type { Logger } from "./state.js";

const MAX_JOBS = 1_000;
const LOOPBACK = /^(localhost|127(\.\d+){3}|::1)$/;

/**
 * The settings of a worker.
 *
 * @example
 * ```ts
 * const worker = new Worker({ tasks: [resize], maxJobs: 20, labels: { zone: "a" } });
 * ```
 */
export interface WorkerOptions extends Pick<PusherOptions, "master" | "fetch"> {
  /** The tasks that the worker runs. */
  readonly tasks: readonly AnyTask[];
  /** Namespace, as for a pusher. Default: `JQMASTER_NAMESPACE`. */
  readonly namespace?: string;
  /**
   * Several namespaces for this one worker, up to 20, with their shares of `maxJobs`. A list gives equal shares. Each
   * namespace has at least one slot, and gets idle slots of other namespaces in addition. Default, without `namespace`:
   * `JQMASTER_WORKER_NAMESPACES`, such as `shop=3 mail`.
   */
  readonly namespaces?: NamespaceShares;
  /** Bearer token with the scope `work`, and `push` for `ctx.enqueue`. Default: `JQMASTER_TOKEN`. */
  readonly token?: string;
  /** Maximum number of jobs at a time. Default 10. */
  readonly maxJobs?: number;
  /** Poll masters for jobs, because they cannot reach this worker. Default: masters push. */
  readonly pull?: boolean;
  /**
   * The address at which masters reach this worker. It is needed if the application's server serves the worker
   * (`worker.fetch`), or if the worker listens on more than loopback.
   */
  readonly url?: string;
  /** Labels, which jobs can require. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The name of this machine, for people. Default: the host name. */
  readonly nodeId?: string;
  /** The version of the application, for people. */
  readonly version?: string;
  /** Seconds for which jobs may continue when the worker ends. Default 25. */
  readonly grace?: number;
  /** End in good order on SIGTERM and SIGINT, then end the process. Default true. */
  readonly signals?: boolean;
  /** The receiver of log messages. Default: standard error. */
  readonly logger?: Logger;
}

const OPTIONS = {
  ...checkedOptions<WorkerOptions>(
    "Worker",
    {
      master: "a text or a list of texts",
      fetch: "a function",
      tasks: "a list",
      namespace: "a text",
      namespaces: "a list or an object",
      token: "a text",
      maxJobs: "a number",
      pull: "true or false",
      url: "a text",
      labels: "an object",
      nodeId: "a text",
      version: "a text",
      grace: "a number",
      signals: "true or false",
      logger: "an object",
    },
    "{ tasks: [resize] }",
  ),
  ofJobs: Object.keys(JOB_OPTIONS),
};
const LISTEN = checkedOptions<ListenOptions>("listen", { host: "a text", port: "a number" }, '{ host: "0.0.0.0", port: 9000 }');

interface ListenOptions {
  readonly host?: string;
  readonly port?: number;
}

/**
 * Runs the jobs of tasks.
 *
 * @example
 * ```ts
 * const worker = new Worker({ tasks: [resize], maxJobs: 20 });
 * await worker.listen();
 * ```
 */
export class Worker {
  /** One member for each namespace. They share the server and the slots. */
  readonly #members: readonly NamespaceWorker[];
  readonly #isSharing: boolean;
  readonly #endpoint: CallServer;
  readonly #pull: boolean;
  readonly #signals: Signals | undefined;
  readonly #graceMs: number;
  readonly #url: string | undefined;
  #server: HttpServer | undefined;
  #isStarted = false;
  #stopped: Promise<void> | undefined;

  constructor(options: WorkerOptions) {
    check(OPTIONS, options);
    const { maxJobs = 10, grace = 25, logger = standardError, labels = {}, nodeId, version = "", pull = false } = options;
    if (!Number.isInteger(maxJobs) || maxJobs < 1 || maxJobs > MAX_JOBS) throw new RangeError(`maxJobs must be an integer from 1 to ${MAX_JOBS}`);
    const common: CommonSettings = { tasks: tasksByName(options.tasks), maxJobs, pull, identity: { labels, nodeId, version }, logger };
    const shares = sharesOf(options);
    this.#isSharing = shares !== undefined;
    this.#members = shares === undefined ? [new NamespaceWorker(connectionOf(options), common)] : sharingMembers(options, common, shares);
    this.#endpoint = new NamespaceEndpoints(this.#members.map(({ endpoint }) => endpoint));
    this.#pull = pull;
    this.#signals = options.signals === false ? undefined : new Signals(() => this.stop());
    this.#graceMs = grace * 1000;
    this.#url = options.url;
  }

  /** The ID of this worker's registration, in its first namespace. Undefined before the registration. */
  get id(): string | undefined {
    return this.#members[0]?.id;
  }

  /**
   * The IDs of this worker's registrations, by namespace.
   *
   * @example
   * ```ts
   * const worker = new Worker({ tasks: [resize], namespaces: { shop: 3, mail: 1 } });
   * await worker.listen();
   * console.log(worker.ids["shop"]);
   * ```
   */
  get ids(): Readonly<Record<string, string>> {
    return Object.fromEntries(this.#members.flatMap(({ namespace, id }) => (id === undefined ? [] : [[namespace, id]])));
  }

  /**
   * Answers the calls of masters. Use it in the application's server, at the path of the option `url`, and call `start`
   * once the server listens.
   *
   * @example
   * ```ts
   * const worker = new Worker({ tasks: [resize], url: "https://app.example/jq" });
   * app.all("/jq/*", (context) => worker.fetch(context.req.raw)); // Hono
   * ```
   */
  readonly fetch = (request: Request): Promise<Response> => answerTo(this.#endpoint, request);

  /**
   * Opens a server, registers, and returns once the worker takes jobs, in at least one of its namespaces. A worker that
   * pulls opens no server.
   *
   * @param address Default: any port of loopback. Other machines reach the worker at the option `url`.
   * @throws RefusedError if repeating the registration does not help.
   *
   * @example
   * ```ts
   * await new Worker({ tasks: [resize], url: "http://10.0.0.7:9000" }).listen({ host: "0.0.0.0", port: 9000 });
   * ```
   */
  async listen(address: ListenOptions = {}): Promise<void> {
    check(LISTEN, address);
    const { host = "127.0.0.1", port = 0 } = address;
    if (this.#pull) {
      await this.start();
      return;
    }
    if (this.#url === undefined && !LOOPBACK.test(host)) {
      throw new TypeError(`give the option url: masters cannot call a worker at ${host}`);
    }
    const server = new HttpServer(this.#endpoint);
    const listened = await server.listen(host, port);
    this.#server = server;
    await this.#start(this.#url ?? `http://${host.includes(":") ? `[${host}]` : host}:${listened}`);
  }

  /**
   * Registers, and returns once the worker takes jobs. Use it if the worker pulls, or if the application's server
   * serves it.
   *
   * @throws RefusedError if repeating the registration does not help.
   *
   * @example
   * ```ts
   * await new Worker({ tasks: [resize], pull: true }).start();
   * ```
   */
  async start(): Promise<void> {
    if (!this.#pull && this.#url === undefined) {
      throw new TypeError("give the option url or call listen(), or give the option pull to poll for jobs");
    }
    await this.#start(this.#pull ? null : (this.#url ?? null));
  }

  /**
   * Ends in good order: informs the masters, accepts no more jobs, lets running jobs continue for `grace` seconds, and
   * hands the other jobs back. Returns when everything is reported.
   *
   * @example
   * ```ts
   * await worker.stop();
   * ```
   */
  stop(): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  async #start(url: string | null): Promise<void> {
    if (this.#isStarted || this.#stopped !== undefined) throw new TypeError("a worker starts once");
    this.#isStarted = true;
    const base = url?.replace(/\/+$/, "") ?? null;
    for (const one of this.#members) one.servedAt(base === null || !this.#isSharing ? base : `${base}${NAMESPACE_PREFIX}${one.namespace}`);
    this.#signals?.listen();
    const begun = this.#members.map((one) => one.begin());
    try {
      // A namespace must not delay the others if its store is unreachable, or if it refuses the worker.
      await Promise.any(begun);
    } catch (error) {
      for (const one of this.#members) one.abandon();
      this.#signals?.forget();
      await this.#server?.close();
      throw (error as AggregateError).errors[0];
    }
    this.#members.forEach((one, index) => {
      begun[index]?.catch((error: unknown) => one.beginLater(error));
    });
  }

  async #stop(): Promise<void> {
    await Promise.all(this.#members.map((one) => one.stop(this.#graceMs)));
    await this.#server?.close();
    this.#signals?.forget();
  }
}

suggestMethods(Worker, { close: "stop", run: "listen, or start for a worker that pulls" });

const standardError: Logger = {
  info: (text) => {
    console.error(text);
  },
  warn: (text) => {
    console.error(text);
  },
  error: (text) => {
    console.error(text);
  },
};

/** Returns the shares of the namespaces; undefined if the worker has only one namespace. */
function sharesOf({ namespace, namespaces }: WorkerOptions): ReadonlyMap<string, number> | undefined {
  if (namespace !== undefined && namespaces !== undefined) throw new TypeError("give namespace or namespaces, and not both");
  const shares = namespaces ?? (namespace === undefined ? environment().workerNamespaces : undefined);
  return shares === undefined ? undefined : checkedShares(shares);
}

function sharingMembers(options: WorkerOptions, common: CommonSettings, shares: ReadonlyMap<string, number>): NamespaceWorker[] {
  // JQMASTER_NAMESPACE applies only to the pushers of the process.
  const connection = connectionOf({ ...options, namespace: DEFAULT_NAMESPACE });
  for (const address of connection.master) {
    const name = namespaceOf(address);
    if (name !== undefined) throw new TypeError(`namespaces: give the address without ${NAMESPACE_PREFIX}${name}`);
  }
  const slots = new SharedSlots(common.maxJobs);
  return [...slotsByNamespace(shares, common.maxJobs)].map(
    ([name, guaranteed]) => new NamespaceWorker({ ...connection, master: movedTo(connection.master, name) }, common, slots.add(guaranteed)),
  );
}

function connectionOf(options: WorkerOptions): Connection {
  const known = environment();
  const token = options.token ?? known.token;
  return {
    master: inNamespace(options.master ?? known.url, options.namespace ?? known.namespace),
    ...(token === undefined ? {} : { token }),
    ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
  };
}

function tasksByName(tasks: readonly AnyTask[] | undefined): Map<string, AnyTask> {
  if (tasks === undefined || tasks.length === 0) throw new TypeError("a worker needs a task: give them as tasks: [resize]");
  const byName = new Map<string, AnyTask>();
  for (const task of tasks) {
    if (!isTask(task)) throw new TypeError("Worker: tasks must be a list of tasks from task(…)");
    if (task.handler === undefined) throw new TypeError(`the task ${task.name} has no handler`);
    if (byName.has(task.name)) throw new TypeError(`two tasks are named ${task.name}`);
    byName.set(task.name, task);
  }
  return byName;
}

/** Also recognizes the tasks of another copy of this package. */
function isTask(given: unknown): boolean {
  return typeof given === "object" && given !== null && "handler" in given && "name" in given;
}
