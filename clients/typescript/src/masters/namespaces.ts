/** Addresses of namespaces. */

/** The namespace of addresses that name none. */
const DEFAULT = "default";
const PREFIX = "/ns/";

/**
 * Returns the addresses of a namespace at these masters. An address that names a namespace itself stays as it is.
 *
 * @throws TypeError if the name is invalid.
 */
export function inNamespace(addresses: string | readonly string[], namespace: string | undefined): readonly string[] {
  const all = typeof addresses === "string" ? [addresses] : addresses;
  if (namespace === undefined) return all;
  if (!/^[a-z][a-z0-9-]{1,38}$/.test(namespace)) {
    throw new TypeError(`namespace ${JSON.stringify(namespace.slice(0, 64))}: a name has 2 to 39 of the characters a-z 0-9 -, and begins with a letter`);
  }
  if (namespace === DEFAULT) return all;
  return all.map((address) => (address.includes(PREFIX) ? address : `${address.replace(/\/+$/, "")}${PREFIX}${namespace}`));
}
