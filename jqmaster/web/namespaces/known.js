/** The namespaces of the installation that this reader may see. */
import { Problem, get } from "../core/api.js";
import { useEffect, useState } from "../core/lib.js";
import { ofInstallation } from "../core/namespaces.js";

/** @typedef {import("../../answers").Schemas["NamespaceView"]} Namespace */

/** @type {Namespace[]} */
let known = [];
/** @type {Set<(namespaces: Namespace[]) => void>} */
const listeners = new Set();

/** Read the namespaces again. A token of a single namespace cannot list namespaces, and the list is then empty. */
export async function loadNamespaces() {
  const path = /** @type {"api/namespaces"} */ (ofInstallation("api/namespaces"));
  try {
    known = (await get(path)).namespaces;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    // No master answers, so keep the namespaces that are known.
    if (error.status === 0 || error.status >= 500) return;
    known = [];
  }
  for (const listener of listeners) listener(known);
}

/** @returns {Namespace[]} `default` first and the others by name; empty while they are not known. */
export function useNamespaces() {
  const [namespaces, setNamespaces] = useState(known);
  useEffect(() => {
    listeners.add(setNamespaces);
    setNamespaces(known);
    return () => void listeners.delete(setNamespaces);
  }, []);
  return namespaces;
}
