/**
 * Places orders at a shop that fails in many ways, and compares the jobs with the shop's book.
 *
 *     JQMASTER_URL=http://127.0.0.1:8080 node build/examples/orders/main.js 20
 */

import { JobFailed, Worker } from "jqmaster-sdk";
import { faultsOf, type Outcome } from "./ledger.js";
import { placeOrder } from "./order.js";
import { Shop } from "./shop.js";

const count = Number(process.argv[2] ?? 20);
const shop = new Shop();
const url = await shop.open();
const worker = new Worker({ tasks: [placeOrder], maxJobs: 20 });
await worker.listen();

const orders = Array.from({ length: count }, (_, index) => index + 1);
const handles = await placeOrder.many(orders.map((order) => ({ order, shop: url })));
const outcomes = await Promise.all(
  handles.map(async (handle, index): Promise<Outcome> => {
    const known = { order: orders[index] ?? 0, jobId: handle.id };
    try {
      return { ...known, receipt: (await handle.result({ wait: 60 })).receipt };
    } catch (error) {
      if (!(error instanceof JobFailed)) throw error;
      return { ...known, code: error.code };
    }
  }),
);
await worker.stop();
shop.close();

const done = outcomes.filter(({ receipt }) => receipt !== undefined).length;
console.log(`${done} orders were carried out, and ${count - done} were refused`);
const faults = faultsOf(outcomes, shop.book.values());
console.log(faults.length === 0 ? "the ledger balances" : faults.join("\n"));
process.exitCode = faults.length === 0 ? 0 : 1;
