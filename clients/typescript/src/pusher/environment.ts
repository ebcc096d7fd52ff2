/** The variables of the environment that pushers and workers read. */

/** The settings of the environment, which apply by default. */
export interface Environment {
  readonly url: string;
  readonly token: string | undefined;
  readonly namespace: string | undefined;
  /** The shares of the namespaces of workers. */
  readonly workerNamespaces: Readonly<Record<string, number>> | undefined;
}

/** Returns the address, the token and the namespaces by default. */
export function environment(): Environment {
  const { JQMASTER_URL: url, JQMASTER_TOKEN: token, JQMASTER_NAMESPACE: namespace, JQMASTER_WORKER_NAMESPACES: shares } = process.env;
  return {
    url: url ?? "http://127.0.0.1:8080",
    token: token === "" ? undefined : token,
    namespace: namespace === "" ? undefined : namespace,
    workerNamespaces: sharesIn(shares ?? ""),
  };
}

/** Returns the shares that a text such as `shop=3 mail` names; undefined: it names none. */
function sharesIn(text: string): Record<string, number> | undefined {
  const shares: Record<string, number> = {};
  for (const word of text.split(/\s+/).filter((one) => one !== "")) {
    const [name = "", share = "1"] = word.split("=", 2);
    if (name in shares) throw new TypeError(`JQMASTER_WORKER_NAMESPACES: namespace ${name} is named twice`);
    shares[name] = /^\d{1,6}$/.test(share) ? Number(share) : NaN;
  }
  return Object.keys(shares).length === 0 ? undefined : shares;
}
