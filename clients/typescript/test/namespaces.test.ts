import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Pusher, RefusedError, Worker, task, type PusherOptions } from "jqmaster-sdk";
import { inNamespace } from "#dist/masters/namespaces.js";
import { SILENT } from "./support.js";

test("an address gets the namespace", () => {
  const cases: [string, string, string][] = [
    ["http://a", "shop", "http://a/ns/shop"],
    ["http://a/", "shop", "http://a/ns/shop"],
    ["https://a:8443/jobs", "shop", "https://a:8443/jobs/ns/shop"],
    ["http://a/ns/mail", "shop", "http://a/ns/mail"],
    ["http://a", "default", "http://a"],
  ];
  for (const [address, namespace, result] of cases) assert.deepEqual(inNamespace(address, namespace), [result]);
  assert.deepEqual(inNamespace(["http://a", "http://b"], undefined), ["http://a", "http://b"]);
});

test("a name that no namespace can have is refused at once", () => {
  for (const namespace of ["Shop", "x", "shop/api", "x".repeat(40), ""]) {
    assert.throws(() => new Pusher({ namespace }), /2 to 39 of the characters a-z 0-9 -/);
  }
});

test("pushers and workers call the namespace of the code, or else of the environment", async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    response.writeHead(404, { "content-type": "application/msgpack" }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const master = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const pushed = async (options: PusherOptions) => {
    asked.length = 0;
    await assert.rejects(new Pusher({ master, ...options }).enqueue("work"), RefusedError);
    return asked;
  };
  const former = process.env["JQMASTER_NAMESPACE"];
  try {
    process.env["JQMASTER_NAMESPACE"] = "mail";
    assert.deepEqual(await pushed({}), ["/ns/mail/api/jobs"]);
    assert.deepEqual(await pushed({ namespace: "shop" }), ["/ns/shop/api/jobs"]);
    assert.deepEqual(await pushed({ namespace: "default" }), ["/api/jobs"]);
    assert.deepEqual(await pushed({ master: `${master}/ns/other` }), ["/ns/other/api/jobs"]);
    asked.length = 0;
    const worker = new Worker({ tasks: [task("work", () => null)], master, namespace: "shop", pull: true, signals: false, logger: SILENT, grace: 0 });
    await assert.rejects(Promise.resolve(worker.start()), RefusedError);
    await worker.stop();
    assert.ok(asked.length > 0 && asked.every((path) => path.startsWith("/ns/shop/api/")), asked.join(" "));
  } finally {
    if (former === undefined) delete process.env["JQMASTER_NAMESPACE"];
    else process.env["JQMASTER_NAMESPACE"] = former;
    server.close();
    server.closeAllConnections();
  }
});
