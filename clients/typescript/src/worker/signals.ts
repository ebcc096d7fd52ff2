/** SIGTERM and SIGINT: first the workers of the process end in good order, then the process ends. */

/** The workers of every copy of this package in the process. The last one to end also ends the process. */
const ENDING = Symbol.for("jqmaster-sdk.ending");
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Ends a worker on SIGTERM and SIGINT. */
export class Signals {
  readonly #end = () => {
    void this.#ended();
  };

  constructor(private readonly stop: () => Promise<void>) {}

  listen(): void {
    for (const signal of SIGNALS) process.on(signal, this.#end);
    ending().add(this);
  }

  /** Called when the worker has stopped by itself. */
  forget(): void {
    for (const signal of SIGNALS) process.off(signal, this.#end);
    ending().delete(this);
  }

  async #ended(): Promise<void> {
    await this.stop();
    // Exit here, because open connections of the application would keep the process running.
    if (ending().size === 0) process.exit(process.exitCode ?? 0);
  }
}

function ending(): Set<unknown> {
  const shared = globalThis as unknown as Record<symbol, Set<unknown> | undefined>;
  return (shared[ENDING] ??= new Set());
}
