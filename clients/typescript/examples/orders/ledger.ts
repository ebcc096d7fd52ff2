/** The ledger: it compares the outcome of each order according to the jobs with the shop's book. */

import type { Entry } from "./shop.js";

/** The outcome of an order according to its job: a receipt, or the code with which the job failed. */
export interface Outcome {
  readonly order: number;
  readonly jobId: string;
  readonly receipt?: string;
  readonly code?: string;
}

/** Returns texts about the differences. Empty if the ledger balances. */
export function faultsOf(outcomes: readonly Outcome[], book: Iterable<Entry>): string[] {
  const entries = new Map([...book].map((entry) => [entry.key, entry]));
  const faults: string[] = [];
  for (const { order, jobId, receipt, code } of outcomes) {
    const entry = entries.get(jobId);
    entries.delete(jobId);
    if (entry?.order !== order) faults.push(`order ${order} is not in the book`);
    else if ("receipt" in entry.answer && entry.answer.receipt !== receipt) faults.push(`order ${order} was carried out, but its job has ${String(code)}`);
    else if ("error" in entry.answer && entry.answer.error !== code) faults.push(`order ${order} was refused, but its job has ${String(receipt ?? code)}`);
  }
  for (const { order } of entries.values()) faults.push(`order ${order} is in the book, but nobody placed it`);
  return faults;
}
