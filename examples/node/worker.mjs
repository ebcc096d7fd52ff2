/**
 * A worker in Node, without any package. Masters push jobs to it; with PULL=1, it polls for them.
 *
 *   JQMASTER_URL=http://127.0.0.1:8080 node examples/node/worker.mjs
 *   jqmaster conformance worker --run "node examples/node/worker.mjs"
 */
import crypto from "node:crypto";
import http from "node:http";
import os from "node:os";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { decode, encode } from "./msgpack.mjs";

const MASTER = process.env.JQMASTER_URL ?? "http://127.0.0.1:8080";
const TOKEN = process.env.JQMASTER_TOKEN;
const PULLS = Boolean(process.env.PULL);
const MAX_JOBS = 4;
const GRACE_MS = 2000;
const MAX_BODY = 32 * 1024 * 1024;
let secret = ""; // a new one for each registration

/** A handler throws this to end its job for good. */
class Discard extends Error {}

/** By name: (argument, signal) → result. A handler stops when its signal is aborted. */
const HANDLERS = {
  "conformance.echo": async (argument) => argument,
  "conformance.sleep": (seconds, signal) => sleep(seconds * 1000, null, { signal }),
  "conformance.fail": async ({ message, retry }) => {
    throw retry ? new Error(message) : new Discard(message);
  },
};

// --- time

/** Milliseconds that never go back. They do not advance while the machine sleeps, but leases do. */
const steadyMs = () => performance.now();
let sleptMs = 0;
let wallLeadMs = Date.now() - steadyMs();
/** The same, plus the time that the machine may have slept. This latest possible time decides whether something ends. */
function latestMs() {
  const lead = Date.now() - steadyMs();
  if (lead > wallLeadMs + 500) sleptMs += lead - wallLeadMs;
  wallLeadMs = lead;
  return steadyMs() + sleptMs;
}

// Bounds of the store's time minus our own time. Each answer gives the time within its round trip. Clocks drift by 0.05
// %.
let bounds = null;
let staleFence = 0;
function learn(storeMs, sentMs, fence) {
  const at = steadyMs();
  let low = storeMs - at, high = storeMs + 1 - sentMs;
  let wentBack = false;
  if (bounds) {
    const drift = (at - bounds.at) * 0.0005;
    const old = { low: bounds.low - drift, high: bounds.high + drift };
    wentBack = high < old.low;
    if (Math.max(low, old.low) <= Math.min(high, old.high)) [low, high] = [Math.max(low, old.low), Math.min(high, old.high)];
  }
  staleFence = wentBack ? fence : Math.min(staleFence, fence);
  bounds = { at, low, high };
}
// Older answers say nothing: the store's clock may have been set while this process was suspended.
const latestStoreMs = () => (bounds && steadyMs() - bounds.at <= me.leaseMs ? latestMs() + bounds.high + (steadyMs() - bounds.at) * 0.0005 : Infinity);
const earliestStoreMs = () => (bounds ? Math.max(0, Math.floor(steadyMs() + bounds.low - (steadyMs() - bounds.at) * 0.0005)) : 0);
const marginMs = (leaseMs) => Math.min(2000, leaseMs / 10);

// --- calls to the master

/** Returns {status, body, retryMs}. Status 0: no answer. */
async function call(method, path, body, timeoutMs, signal) {
  const headers = { "Content-Type": "application/msgpack", Accept: "application/msgpack" };
  if (TOKEN) headers.Authorization = `Bearer ${TOKEN}`;
  const signals = [AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])];
  try {
    const answer = await fetch(MASTER + path, { method, headers, body: body && encode(body), signal: AbortSignal.any(signals) });
    const bytes = Buffer.from(await answer.arrayBuffer());
    const isOurs = answer.headers.get("content-type")?.startsWith("application/msgpack");
    const retryMs = (Number(answer.headers.get("retry-after")) || 0) * 1000;
    return { status: answer.status, body: isOurs && bytes.length ? decode(bytes) : {}, retryMs };
  } catch {
    return { status: 0, body: {}, retryMs: 0 };
  }
}
const pause = (tries, retryMs = 0) => sleep(retryMs + Math.random() * Math.min(5000, 100 * 2 ** Math.min(tries, 10)));
const isTransient = (status) => [0, 401, 403, 408, 425, 429].includes(status) || status >= 500;

// --- the state of this worker

let me = null; // {id, leaseMs, intervalMs}
let registering = null; // a promise, while a registration is in progress
let epoch = 0;
let drainOrdered = false;
let leaving = false;
let url = null;
const isDraining = () => leaving || drainOrdered;

/**
 * By token: {job, abort, stopping, isRunning, isOwed, wasNamed, deadlineMs, leaseEndMs}. isRunning: it has a slot.
 * isOwed: heartbeats name it.
 */
const claims = new Map();
const seen = new Map(); // verdicts by token
const outbox = new Map(); // reports of ended jobs by token
const inSlots = () => [...claims.values()].filter((claim) => claim.isRunning);
const room = () => (isDraining() ? 0 : Math.max(0, Math.min(MAX_JOBS - inSlots().length, 1000 - claims.size)));

async function register() {
  for (let tries = 1; ; tries++) {
    const sentMs = steadyMs();
    secret = crypto.randomBytes(32).toString("hex");
    const answer = await call("POST", "/api/workers", {
      url, names: Object.keys(HANDLERS), max_jobs: MAX_JOBS, secret, node_id: os.hostname(), pid: process.pid, labels: {}, version: "1",
    }, 10_000);
    if (answer.status === 201) {
      learn(answer.body.store_time_ms, sentMs, 0);
      epoch = Math.max(epoch, answer.body.epoch);
      me = { id: answer.body.worker_id, leaseMs: answer.body.lease_s * 1000, intervalMs: answer.body.heartbeat_interval_s * 1000 };
      drainOrdered = false;
      console.error(`registered as ${me.id}`);
      return;
    }
    const told = answer.status === 0 ? `no answer from ${MASTER}` : [answer.status, answer.body.code, answer.body.detail].join(" ");
    console.error(`not registered: ${told}`);
    await pause(tries, answer.retryMs || 200);
  }
}

/**
 * Registers again after masters forgot this worker. Its running jobs then no longer belong to it. Only one call runs at
 * a time, and results wait meanwhile.
 */
function rejoin(oldId) {
  if (me?.id !== oldId || registering) return registering;
  registering = (async () => {
    for (const claim of claims.values()) stop(claim, "lost");
    while (inSlots().some((claim) => latestMs() < claim.leaseEndMs)) await sleep(20);
    await register();
  })().finally(() => (registering = null));
  return registering;
}

// --- offers

function judge(job, offerEpoch, isStale) {
  const latest = latestStoreMs();
  if (isStale) return "stale_epoch";
  if (!Object.hasOwn(HANDLERS, job.name) || job.phase !== "run") return "unknown_name";
  if (isDraining()) return "draining";
  const leftMs = job.lease_until_ms - latest - marginMs(me.leaseMs);
  if (latest > job.not_after_ms || leftMs <= 0 || job.fence <= staleFence) return "too_late";
  if (inSlots().some((claim) => claim.job.job_id === job.job_id)) return "duplicate";
  if (room() === 0) return "busy";
  const claim = {
    job, abort: new AbortController(), stopping: null, isRunning: true, isOwed: true, wasNamed: false,
    deadlineMs: latestMs() + job.timeout * 1000, leaseEndMs: latestMs() + leftMs,
  };
  claims.set(job.token, claim);
  run(claim);
  return "accepted";
}

function isJob(job) {
  const text = ["job_id", "token", "name", "phase"], integers = ["attempt", "fence", "not_after_ms", "lease_until_ms"];
  return job !== null && typeof job === "object" && text.every((field) => typeof job[field] === "string")
    && integers.every((field) => Number.isInteger(job[field])) && typeof job.timeout === "number" && job.timeout > 0 && "argument" in job;
}

/** Returns {accepted, rejected}; null if the offer is not valid, and no job was started. */
function offer(offerEpoch, jobs) {
  if (!Number.isInteger(offerEpoch) || !Array.isArray(jobs) || !jobs.every(isJob)) return null;
  const isStale = offerEpoch < epoch;
  epoch = Math.max(epoch, offerEpoch);
  for (const [token, { atMs }] of seen) {
    if (atMs > latestMs() - 2 * me.leaseMs - 10_000) break;
    seen.delete(token);
  }
  const accepted = [], rejected = [];
  for (const job of jobs) {
    const verdict = seen.get(job.token)?.verdict ?? judge(job, offerEpoch, isStale);
    if (!seen.has(job.token)) seen.set(job.token, { verdict, atMs: latestMs() });
    if (verdict === "accepted") accepted.push(job.job_id);
    else rejected.push({ job_id: job.job_id, reason: verdict, retry_after: null });
  }
  return { accepted, rejected };
}

// --- jobs

async function run(claim) {
  let ending;
  try {
    ending = { type: "success", result: (await HANDLERS[claim.job.name](claim.job.argument, claim.abort.signal)) ?? null };
  } catch (error) {
    ending = failure("other", !(error instanceof Discard), String(error?.message ?? error));
  }
  claim.isRunning = false;
  if (claim.stopping === "canceled" || claim.stopping === "handed_back") ending = { type: claim.stopping };
  if (claim.stopping === "lost" && claim.wasNamed) claims.delete(claim.job.token);
  if (!claim.stopping || ending.type === claim.stopping) report(claim, ending);
  wakeUp();
}

const failure = (reason, retry, message) => ({ type: "failure", reason, should_retry: retry, error: null, message, retry_after: null });

/** `why`: canceled, timeout, handed_back or lost. After lost, nothing is reported. */
function stop(claim, why) {
  if (!claim.isRunning || claim.stopping === "lost" || (claim.stopping && why !== "lost")) return;
  claim.stopping = why;
  claim.isOwed = why !== "lost";
  claim.abort.abort();
  // Report at once: a handler that ignores its signal keeps its slot until it ends.
  if (why === "timeout") report(claim, failure("timeout", true, `longer than ${claim.job.timeout} s`));
}

function watch() {
  for (const claim of inSlots()) {
    if (latestMs() >= claim.leaseEndMs) stop(claim, "lost");
    else if (latestMs() >= claim.deadlineMs) stop(claim, "timeout");
  }
}

// --- results

let wakeUp = () => {};
const news = () => new Promise((resolve) => (wakeUp = resolve));

function report(claim, ending) {
  const { job_id, token } = claim.job;
  outbox.set(token, { job_id, token, finished_at: new Date().toISOString(), ...ending });
  wakeUp();
}

async function sendResults() {
  for (let tries = 1, alone = false; ; ) {
    if (outbox.size === 0) {
      await Promise.race([news(), sleep(200)]);
      continue;
    }
    const batch = [...outbox.values()].slice(0, alone ? 1 : 500);
    const id = me.id;
    const answer = await call("POST", `/api/workers/${id}/results`, { results: batch }, 10_000);
    if (answer.status === 200) {
      const done = new Set([...answer.body.accepted, ...answer.body.stale]);
      for (const item of batch.filter((item) => done.has(item.job_id))) {
        outbox.delete(item.token);
        const claim = claims.get(item.token);
        if (claim) claim.isOwed = false;
        if (!claim?.isRunning) claims.delete(item.token);
      }
      [tries, alone] = [1, false];
    } else if (answer.status === 404 && answer.body.code === "unknown_worker") await rejoin(id);
    else if (isTransient(answer.status)) await pause(tries++, answer.retryMs);
    else if (batch.length > 1) alone = true;
    else {
      const [item] = batch;
      const said = `the master refused the result: ${answer.body.detail ?? answer.status}`;
      outbox.set(item.token, { job_id: item.job_id, token: item.token, finished_at: item.finished_at, ...failure("other", false, said) });
      if (item.message === said) await pause(tries++);
    }
  }
}

// --- heartbeats

let beatNow = () => {};

/** Returns true if the heartbeat was answered. */
async function beat(asks) {
  const id = me.id;
  // If a job that had begun was stopped before an answered heartbeat named its claim, the claim is named once more.
  const named = [...claims.values()].filter((claim) => claim.isOwed || (claim.stopping === "lost" && !claim.wasNamed)).slice(0, 1000);
  const body = {
    running: named.map(({ job }) => ({ job_id: job.job_id, token: job.token })),
    free: room(),
    as_of_ms: earliestStoreMs(),
    ...(asks ? { asks_to_continue: true } : {}),
  };
  const sentMs = steadyMs(), sentLatestMs = latestMs();
  const { status, body: told } = await call("POST", `/api/workers/${id}/heartbeat`, body, asks ? 1000 : Math.max(250, me.leaseMs / 4));
  if (status === 404 && told.code === "unknown_worker") {
    await rejoin(id);
    return null;
  }
  if (status !== 200 || id !== me.id) return null;
  learn(told.store_time_ms, sentMs, told.fence ?? 0);
  epoch = Math.max(epoch, told.epoch);
  me.intervalMs = (told.heartbeat_interval_s ?? me.intervalMs / 1000) * 1000;
  me.leaseMs = (told.lease_s ?? me.leaseMs / 1000) * 1000;
  drainOrdered = told.drain;
  const lost = new Set(told.lost.map((claim) => claim.token));
  const leaseMs = told.lease_until_ms - told.store_time_ms;
  for (const claim of named) {
    claim.wasNamed = true;
    if (lost.has(claim.job.token)) stop(claim, "lost");
    else if (leaseMs > 0) claim.leaseEndMs = sentLatestMs + leaseMs - marginMs(leaseMs);
    if (claim.stopping === "lost" && !claim.isRunning) claims.delete(claim.job.token);
  }
  for (const { token } of told.cancel) {
    const claim = claims.get(token);
    if (claim) stop(claim, "canceled");
  }
  return told;
}

async function heartbeats() {
  for (;;) {
    const beganMs = steadyMs();
    if (registering) await registering;
    const id = me.id;
    if ((await beat(false))?.detached) {
      console.error("detached; asking whether it may continue");
      let mayGoOn = false;
      for (let n = 0; n < 3 && !mayGoOn; n++) {
        await sleep(n ? 300 : 0);
        const told = await beat(true);
        mayGoOn = told !== null && !told.detached;
      }
      if (!mayGoOn) await rejoin(id);
    }
    await Promise.race([new Promise((resolve) => (beatNow = resolve)), sleep(Math.max(10, me.intervalMs - (steadyMs() - beganMs)))]);
  }
}

// --- calls from masters

const nonces = new Map();

function isSigned(method, path, headers, body) {
  const [worker, timestamp, nonce, signature] = ["worker", "timestamp", "nonce", "signature"].map((name) => headers[`x-jq-${name}`] ?? "");
  if (worker !== me?.id || !/^\d{1,15}$/.test(timestamp) || !/^[!-~]{8,128}$/.test(nonce) || !/^v1=[0-9a-f]{64}$/.test(signature)) return false;
  if (Math.abs(Date.now() - Number(timestamp)) > 300_000) return false;
  if (body === null) return true; // the checks that do not need the body
  const digest = crypto.createHash("sha256").update(body).digest("hex");
  const text = [method, path, worker, timestamp, nonce, digest].join("\n");
  const expected = "v1=" + crypto.createHmac("sha256", secret).update(text).digest("hex");
  if (!crypto.timingSafeEqual(Buffer.from(signature), Buffer.from(expected))) return false;
  for (const [old, atMs] of nonces) {
    if (atMs > steadyMs() - 600_000) break;
    nonces.delete(old);
  }
  if (nonces.has(nonce) || nonces.size >= 100_000) return false;
  nonces.set(nonce, steadyMs());
  return true;
}

async function bodyOf(request, most) {
  const pieces = [];
  let length = 0;
  if (Number(request.headers["content-length"] ?? 0) > most) return null;
  for await (const piece of request) {
    length += piece.length;
    if (length > most) return null;
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

async function serve(request) {
  const { method, headers } = request;
  const path = request.url;
  if (path === "/ping") return method === "GET" ? [204] : [405];
  if (path === "/challenge") return method === "POST" ? prove(await bodyOf(request, 1024)) : [405];
  const target = /^\/jobs\/([^/]+)\/cancel$/.exec(path)?.[1];
  const wanted = path === "/status" ? "GET" : target || ["/jobs", "/drain", "/resume", "/detach"].includes(path) ? "POST" : null;
  if (!wanted) return [404];
  if (method !== wanted) return [405];
  // A push may arrive before the answer to the registration.
  if (registering) await Promise.race([registering, sleep(2000)]);
  if (!isSigned(method, path, headers, null)) return [401];
  const body = await bodyOf(request, MAX_BODY);
  if (body === null) return [413];
  if (!isSigned(method, path, headers, body)) return [401];
  if (path === "/status") {
    const running = [...claims.values()].filter((claim) => claim.isOwed).map(({ job }) => ({ job_id: job.job_id, token: job.token }));
    return [200, { worker_id: me.id, running, free: room(), max_jobs: MAX_JOBS, names: Object.keys(HANDLERS), draining: isDraining() }];
  }
  if (headers["content-type"]?.split(";")[0].trim().toLowerCase() !== "application/msgpack") return [415];
  let fields;
  try {
    fields = decode(body);
  } catch {
    return [400];
  }
  if (fields === null || typeof fields !== "object" || Array.isArray(fields)) return [422];
  if (path === "/jobs") {
    const answer = fields.worker_id === me.id ? offer(fields.epoch, fields.jobs) : null;
    return answer ? [200, answer] : [422];
  }
  if (fields.epoch !== undefined && fields.epoch !== null) {
    if (!Number.isInteger(fields.epoch)) return [422];
    if (fields.epoch < epoch) return [409];
    epoch = fields.epoch;
  }
  if (target) {
    const claim = claims.get(fields.token);
    if (claim?.job.job_id !== target || !claim.isRunning) return [404];
    stop(claim, "canceled");
  } else if (path !== "/detach") drainOrdered = path === "/drain";
  if (!target) beatNow();
  return [200, {}];
}

function prove(body) {
  let nonce;
  try {
    nonce = decode(body)?.nonce;
  } catch {
    return [400];
  }
  if (typeof nonce !== "string" || !/^[A-Za-z0-9_-]{16,128}$/.test(nonce)) return [422];
  return [200, { proof: crypto.createHmac("sha256", secret).update(nonce).digest("hex") }];
}

function listen() {
  const server = http.createServer(async (request, response) => {
    let status, value;
    try {
      [status, value] = await serve(request);
    } catch {
      return request.destroy(); // cut off, or too slow
    }
    const body = value === undefined ? Buffer.alloc(0) : encode(value);
    const headers = { ...(value === undefined ? {} : { "Content-Type": "application/msgpack" }), ...(request.complete ? {} : { Connection: "close" }) };
    response.writeHead(status, status === 204 ? headers : { ...headers, "Content-Length": body.length });
    response.end(body);
  });
  server.maxConnections = 512;
  server.keepAliveTimeout = 75_000;
  server.headersTimeout = 10_000;
  server.requestTimeout = 60_000;
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${server.address().port}`)));
}

// --- calls for jobs

let hanging = null; // {pollId, abort}

async function ask() {
  let refused = [], pollId = crypto.randomUUID();
  for (let tries = 1; ; ) {
    if (registering) await registering;
    if (room() === 0) {
      await Promise.race([news(), sleep(100)]);
      continue;
    }
    const id = me.id;
    hanging = { pollId, abort: new AbortController() };
    const { status, body, retryMs } = await call("POST", `/api/workers/${id}/claim`, { max: room(), wait: 20, poll_id: pollId, refused }, 25_000, hanging.abort.signal);
    const wasWithdrawn = hanging.abort.signal.aborted;
    hanging = null;
    if (status === 404 && body.code === "unknown_worker") await rejoin(id);
    else if (status === 200 && !wasWithdrawn) {
      const answer = body.jobs.length ? offer(body.epoch, body.jobs) : { rejected: [] };
      const tokens = new Map(body.jobs.map((job) => [job.job_id, job.token]));
      refused = (answer?.rejected ?? body.jobs).filter(({ reason }) => reason !== "duplicate").map(({ job_id }) => ({ job_id, token: tokens.get(job_id) }));
      if (body.drain) drainOrdered = true;
      [pollId, tries] = [crypto.randomUUID(), 1];
      continue;
    } else if (status === 409 && body.code === "worker_detached") beatNow();
    if (wasWithdrawn || body.code === "poll_replaced") pollId = crypto.randomUUID();
    else await pause(tries++, retryMs);
  }
}

/** Called before a drain and before the end: jobs that were assigned and have not begun are handed back. */
async function withdraw() {
  if (!hanging) return;
  const { pollId, abort } = hanging;
  abort.abort();
  await call("POST", `/api/workers/${me.id}/claim`, { max: 1, poll_id: pollId, withdraw: true }, 3000);
}

// --- start and end

async function end() {
  if (leaving) return;
  leaving = true;
  beatNow();
  if (PULLS) await withdraw();
  const endsMs = steadyMs() + GRACE_MS;
  while (inSlots().length && steadyMs() < endsMs) await sleep(20);
  for (const claim of inSlots()) stop(claim, "handed_back");
  // A job that does not stop is not handed back. Heartbeats name it until the process ends, and then it counts as lost.
  const stoppedMs = steadyMs() + 2000;
  while ((inSlots().length && steadyMs() < stoppedMs) || outbox.size) await sleep(20);
  await call("DELETE", `/api/workers/${me.id}`, undefined, 3000);
  process.exit(0);
}

if (!PULLS) url = await listen();
registering = register().finally(() => (registering = null));
await registering;
process.on("SIGTERM", end);
process.on("SIGINT", end);
setInterval(watch, 20);
if (PULLS) {
  setInterval(() => drainOrdered && hanging && withdraw(), 50);
  ask();
}
sendResults();
await heartbeats();
