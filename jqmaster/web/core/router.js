/**
 * Addresses: `#/jobs?state=failed&name=mail`. An address contains everything that selects the content of a page, so
 * that a link shows the same content.
 */
import { useEffect, useState } from "./lib.js";
import { namespace, ofInstallation } from "./namespaces.js";

/** The pages that exist: an address can name no other file. */
export const PAGES = /** @type {const} */ ([
  "overview",
  "jobs",
  "job",
  "names",
  "failures",
  "batches",
  "constraints",
  "definitions",
  "calendars",
  "events",
  "challenges",
  "notices",
  "targets",
  "workers",
  "masters",
  "namespaces",
  "incidents",
  "personal_data",
  "audit",
  "settings",
  "access",
  "account",
  "enqueue",
  "login",
]);

/** @typedef {typeof PAGES[number]} PageName */
/** @type {readonly PageName[]} The pages about the whole installation. The web UI of a namespace does not have these pages. */
const OF_INSTALLATION = ["namespaces"];

/** @typedef {{page: PageName | null, query: Record<string, string>}} Route `page` null: there is no such page. */

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const name = path === "" ? "overview" : path;
  const page = PAGES.find((known) => known === name) ?? null;
  /** @type {Record<string, string>} */
  const query = Object.create(null);
  for (const [key, value] of new URLSearchParams(search)) query[key] = value;
  return { page, query };
}

/** @param {PageName | null} page */
export const isOfInstallation = (page) => page !== null && OF_INSTALLATION.includes(page);

/** @param {PageName | null} page @returns {boolean} Whether the page belongs to the installation, and so is not in the web UI of this namespace. */
export const isElsewhere = (page) => namespace !== "" && isOfInstallation(page);

/**
 * Return the address of a page, for links.
 * @param {PageName} page
 * @param {Record<string, string | number | boolean | null | undefined>} [query] Values that are null, undefined or ""
 *   are left out.
 */
export function href(page, query = {}) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") params.set(key, String(value));
  }
  const search = params.toString();
  return `${isElsewhere(page) ? ofInstallation("") : ""}#/${page}${search ? "?" + search : ""}`;
}

/**
 * @param {PageName} page
 * @param {Record<string, string | number | boolean | null | undefined>} [query]
 * @param {{replace?: boolean}} [options] `replace`: add no step for the Back button, for example while somebody types a
 *   filter.
 */
export function go(page, query = {}, { replace = false } = {}) {
  const target = href(page, query);
  if (isElsewhere(page)) location.assign(target);
  else if (!replace) location.hash = target;
  else if (location.hash !== target) {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}

/** @returns {Route} */
export function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const change = () => setHash(location.hash);
    addEventListener("hashchange", change);
    // Read the address again: it may have changed between the first render and the addition of the listener.
    change();
    return () => removeEventListener("hashchange", change);
  }, []);
  return parseRoute(hash);
}
