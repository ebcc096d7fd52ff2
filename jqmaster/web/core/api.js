/** The public API over JSON. This module uses only what openapi/jqmaster.yaml describes. */

/** @typedef {{loc: (string | number)[], msg: string}} FieldProblem */
/** @typedef {{title?: string, detail?: string, code?: string, errors?: FieldProblem[], stored_after?: number}} ProblemBody */
/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */
/** @typedef {import("../../answers").Schemas["SessionView"]} Session */
/**
 * @template {string} Path
 * @template {import("../../answers").Method} [Verb="get"]
 * @typedef {import("../../answers").Answer<Path, Verb>} Answer
 */

/** A failed call: a problem (RFC 9457), or no answer at all (status 0). */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {ProblemBody} body
   */
  constructor(status, body) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.status = status;
    this.title = body.title || `HTTP ${status}`;
    this.detail = body.detail || "";
    this.code = body.code || "";
    this.errors = Array.isArray(body.errors) ? body.errors : [];
    /** If the archive of logs cannot be reached: the number of the line after which the store still has lines. */
    this.storedAfter = body.stored_after;
    /**
     * The time at which the shown data were current, as Unix ms of this browser; null if no data are shown. @type
     * {number | null}
     */
    this.shownAsOfMs = null;
  }
}

/** @type {Session | null} */
let session = null;
/** @type {(problem: Problem) => void} */
let onUnauthorized = () => {};

/** @param {(problem: Problem) => void} listener Called when the API requires a login. */
export function whenUnauthorized(listener) {
  onUnauthorized = listener;
}

/**
 * Return the address of `path`, relative to the address of this page.
 * @param {string} path Without a leading slash, such as `api/jobs`.
 * @param {Query} [query] Values that are null, undefined or "" are left out.
 */
export function urlOf(path, query = {}) {
  const url = new URL(path, document.baseURI.replace(/[?#].*$/, ""));
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(key, String(value));
  }
  return url.href;
}

/**
 * Make one call. Return the parsed answer, or null if the answer is empty. Throw Problem, or AbortError if the call is
 * aborted.
 * @template {"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} Verb
 * @template {string} Path
 * @param {Verb} method
 * @param {Path} path
 * @param {{query?: Query, body?: unknown, text?: string, headers?: Record<string, string>, signal?: AbortSignal,
 *   heard?: (response: Response) => void}} [options]
 *   `text`: a body that is already JSON, if its numbers must stay as they were written. `heard`: called with the
 *   response of a successful call, before its body is read.
 * @returns {Promise<Answer<Path, Lowercase<Verb>>>}
 */
export async function call(method, path, { query, body, text, headers, signal, heard } = {}) {
  const sent = text ?? (body === undefined ? undefined : toJson(body));
  /** @type {Record<string, string>} */
  const fields = { Accept: "application/json", ...headers };
  if (sent !== undefined) fields["Content-Type"] = "application/json";
  if (method !== "GET" && session?.csrf_token) fields["X-CSRF-Token"] = session.csrf_token;
  let response;
  try {
    response = await fetch(urlOf(path, query), {
      method,
      headers: fields,
      body: sent ?? null,
      signal: signal ?? null,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, { title: "No answer", code: "no_answer" });
  }
  const answer = await response.text();
  /** @type {unknown} */
  let parsed = null;
  if (answer) {
    try {
      parsed = parseExact(answer);
    } catch {
      throw new Problem(response.ok ? 0 : response.status, {
        title: "The answer is not JSON",
        code: "not_json",
      });
    }
  }
  if (!response.ok) {
    const problem = new Problem(response.status, /** @type {ProblemBody | null} */ (parsed) ?? {});
    if (response.status === 401 && path !== "api/session") onUnauthorized(problem);
    throw problem;
  }
  heard?.(response);
  return /** @type {Answer<Path, Lowercase<Verb>>} */ (parsed);
}

/**
 * @template {string} Path
 * @param {Path} path
 * @param {Query} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer<Path>>}
 */
export const get = (path, query, signal) =>
  call("GET", path, { ...(query && { query }), ...(signal && { signal }) });
/**
 * @template {string} Path
 * @param {Path} path
 * @param {unknown} [body]
 */
export const post = (path, body) => call("POST", path, body === undefined ? {} : { body });
/**
 * @template {string} Path
 * @param {Path} path
 * @param {unknown} body
 */
export const patch = (path, body) => call("PATCH", path, { body });
/**
 * @template {string} Path
 * @param {Path} path
 * @param {unknown} body
 * @param {Record<string, string>} [headers]
 */
export const put = (path, body, headers) => call("PUT", path, { body, ...(headers && { headers }) });
/** @template {string} Path @param {Path} path */
export const del = (path) => call("DELETE", path);

/**
 * @returns {Promise<Session> | undefined} The call that boot.js began before the scripts were loaded. Only the first
 *   call of this function returns that promise.
 */
function begunCall() {
  const page = /** @type {{jqmasterSession?: Promise<Response>}} */ (globalThis);
  const begun = page.jqmasterSession;
  delete page.jqmasterSession;
  return begun?.then(
    async (response) => {
      if (!response.ok) throw new Problem(response.status, {});
      return /** @type {Session} */ (parseExact(await response.text()));
    },
    () => Promise.reject(new Problem(0, { title: "No answer", code: "no_answer" })),
  );
}

/**
 * Return the session as the master knows it. Throw Problem only if no master answered.
 * @returns {Promise<Session>}
 */
export async function fetchSession() {
  return (session = await (begunCall() ?? call("GET", "api/session")));
}

/**
 * @param {{user: string, password: string} | {token: string}} credentials
 * @returns {Promise<Session>}
 */
export async function logIn(credentials) {
  return (session = await call("POST", "api/session", { body: credentials }));
}

/** @returns {Promise<string | null>} The address at which the login provider ends its own session; null if there is none. */
export async function logOut() {
  const answer = await call("DELETE", "api/session");
  session = null;
  return answer?.logout_url ?? null;
}

/**
 * Return whether the session has `scope`. The scope operate includes read, and admin includes all scopes.
 * @param {Session | null | undefined} of
 * @param {string} scope
 */
export function may(of, scope) {
  const scopes = /** @type {string[]} */ (of?.scopes ?? []);
  return (
    scopes.includes(scope) || scopes.includes("admin") || (scope === "read" && scopes.includes("operate"))
  );
}

// Matches numbers, and texts to skip. It matches each number in full, so that no part of a decimal number looks like an
// integer.
const NUMBERS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const LONG_INTEGER = /^-?\d{16,}$/;

/**
 * Parse JSON. Integers beyond 2^53 become BigInt, so that they stay exact.
 * @param {string} text
 * @returns {unknown}
 */
export function parseExact(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  // Make a new random mark for each document, so that the document cannot contain it by chance or on purpose.
  const mark = `\u0001${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;
  let found = false;
  const marked = text.replace(NUMBERS, (token) => {
    if (!LONG_INTEGER.test(token) || Number.isSafeInteger(Number(token))) return token;
    found = true;
    return JSON.stringify(mark + token);
  });
  if (!found) return JSON.parse(text);
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

/**
 * Return the JSON of a value that may contain BigInt.
 * @param {unknown} value
 * @param {number} [indent] Spaces; 0: in one line.
 * @returns {string}
 */
export function toJson(value, indent = 0) {
  const mark = `\u0001${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;
  let found = false;
  const text =
    JSON.stringify(
      value,
      (_, member) => {
        if (typeof member !== "bigint") return member;
        found = true;
        return mark + member;
      },
      indent,
    ) ?? "null";
  if (!found) return text;
  const quoted = JSON.stringify(mark).slice(0, -1);
  return text
    .split(quoted)
    .map((part, i) => (i ? part.replace('"', "") : part))
    .join("");
}
