/** The variables of the environment that pushers and workers read. */

/** Returns the address, the token and the namespace by default. */
export function environment(): { url: string; token: string | undefined; namespace: string | undefined } {
  const { JQMASTER_URL: url, JQMASTER_TOKEN: token, JQMASTER_NAMESPACE: namespace } = process.env;
  return {
    url: url ?? "http://127.0.0.1:8080",
    token: token === "" ? undefined : token,
    namespace: namespace === "" ? undefined : namespace,
  };
}
