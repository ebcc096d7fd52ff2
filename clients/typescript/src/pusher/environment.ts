/** The variables of the environment that pushers and workers read. */

/** Returns the address and the token by default. */
export function environment(): { url: string; token: string | undefined } {
  const { JQMASTER_URL: url, JQMASTER_TOKEN: token } = process.env;
  return { url: url ?? "http://127.0.0.1:8080", token: token === "" ? undefined : token };
}
