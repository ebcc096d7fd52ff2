/** The environment variables that pushers and workers read. */

/** Default settings from the environment. */
export interface Environment {
  readonly url: string;
  readonly token: string | undefined;
  readonly namespace: string | undefined;
  /** The shares of the namespaces of workers. */
  readonly workerNamespaces: Readonly<Record<string, number>> | undefined;
}

/** Returns the default address, token and namespace. */
export function environment(): Environment {
  const { JQMASTER_URL: url, JQMASTER_TOKEN: token, JQMASTER_NAMESPACE: namespace, JQMASTER_WORKER_NAMESPACES: shares } = process.env;
  return {
    url: url ?? "http://127.0.0.1:8080",
    token: token === "" ? undefined : token,
    namespace: namespace === "" ? undefined : namespace,
    workerNamespaces: sharesIn(shares ?? ""),
  };
}

/** Returns the shares in a text such as `shop=3 mail`. Returns undefined if it names no namespace. */
function sharesIn(text: string): Record<string, number> | undefined {
  const shares: Record<string, number> = {};
  for (const word of text.split(/\s+/).filter((one) => one !== "")) {
    const [name = "", share = "1"] = word.split("=", 2);
    if (name in shares) throw new TypeError(`JQMASTER_WORKER_NAMESPACES: namespace ${name} is named twice`);
    shares[name] = /^\d{1,6}$/.test(share) ? Number(share) : NaN;
  }
  return Object.keys(shares).length === 0 ? undefined : shares;
}
