import assert from "node:assert/strict";
import { test } from "node:test";
import { task } from "jqmaster-sdk";
import { wireOptions } from "#dist/pusher/options.js";

test("options are sent under the names of the wire", () => {
  const at = new Date("2026-03-01T10:00:00Z");
  const options = {
    maxRetry: 3,
    keepResult: true,
    runAt: at,
    retry: { baseS: 2, maxS: 60 },
    unique: { key: "photo-42", onConflict: "existing" },
    headers: { traceId: "1" },
    batch: { id: "b" },
    after: { jobs: ["a", { id: "c" }], when: "finished" },
    tags: undefined,
  } as const;
  assert.deepEqual(wireOptions(options as never), {
    max_retry: 3,
    keep_result: true,
    run_at: "2026-03-01T10:00:00.000Z",
    retry: { base_s: 2, max_s: 60 },
    unique: { key: "photo-42", on_conflict: "existing" },
    headers: { traceId: "1" },
    batch: "b",
    after: { jobs: ["a", "c"], when: "finished" },
  });
  assert.deepEqual(wireOptions({ after: "a" }), { after: { jobs: ["a"] } });
});

test("the options of a push count over those of the task", () => {
  const resize = task("photo.resize", { timeout: 600, priority: 1 });
  const { request } = resize.with({ priority: -5 }).job({ photoId: 42 });
  assert.deepEqual({ ...request, id: "" }, { id: "", name: "photo.resize", argument: { photoId: 42 }, timeout: 600, priority: -5 });
  assert.match(request.id, /-7/);
});

test("a name that masters would refuse is refused at once", () => {
  assert.throws(() => task("a b"), /not a name of jobs: "a b"/);
});
