/** Addresses of masters that include a namespace. */

/** The namespace of addresses without one. */
export const DEFAULT_NAMESPACE = "default";
/** The prefix of a namespace's path. */
export const NAMESPACE_PREFIX = "/ns/";

/**
 * Checks the name of a namespace.
 *
 * @throws TypeError if the name is invalid.
 */
export function checkNamespace(name: string): void {
  if (!/^[a-z][a-z0-9-]{1,38}$/.test(name)) {
    throw new TypeError(`namespace ${JSON.stringify(name.slice(0, 64))}: a name has 2 to 39 of the characters a-z 0-9 -, and begins with a letter`);
  }
}

/**
 * Returns the addresses of a namespace at these masters. An address that already names a namespace stays unchanged.
 *
 * @throws TypeError if the name is invalid.
 */
export function inNamespace(addresses: string | readonly string[], namespace: string | undefined): readonly string[] {
  const all = typeof addresses === "string" ? [addresses] : addresses;
  if (namespace === undefined) return all;
  checkNamespace(namespace);
  if (namespace === DEFAULT_NAMESPACE) return all;
  return all.map((address) => (namespaceOf(address) === undefined ? `${address.replace(/\/+$/, "")}${NAMESPACE_PREFIX}${namespace}` : address));
}

/** Returns the namespace that an address names; undefined if it names no namespace. */
export function namespaceOf(address: string): string | undefined {
  return /\/ns\/([^/]+)/.exec(address)?.[1];
}

/**
 * Returns the addresses of a namespace at these masters, whatever namespace the addresses name now.
 *
 * @throws TypeError if the name is invalid.
 */
export function movedTo(addresses: string | readonly string[], namespace: string): readonly string[] {
  const all = typeof addresses === "string" ? [addresses] : addresses;
  return inNamespace(all.map((address) => address.replace(/\/ns\/[^/]+\/*$/, "")), namespace);
}
