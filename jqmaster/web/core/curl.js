/** API calls to paste into a shell. */
import { toJson, urlOf } from "./api.js";
import { shellWord } from "./text.js";

/**
 * @param {import("./api.js").Session} session If the session needed a login, the command takes the token from `$TOKEN`
 *   in the shell.
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, query?: import("./api.js").Query}} [options]
 */
export function curl(session, method, path, { body, query } = {}) {
  const parts = ["curl"];
  if (method !== "GET") parts.push("-X", method);
  parts.push(shellWord(urlOf(path, query)));
  if (session.method !== "local") parts.push("-H", '"Authorization: Bearer $TOKEN"');
  parts.push("-H", "'Accept: application/json'");
  if (body !== undefined) parts.push("-H", "'Content-Type: application/json'", "-d", shellWord(toJson(body)));
  return parts.join(" ");
}
