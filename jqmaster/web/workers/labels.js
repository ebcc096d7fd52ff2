/** Labels of workers as one line of text. */

/** @param {string} text Labels, for example `gpu=1, zone=b`. @returns {Record<string, string>} */
export const labelsIn = (text) =>
  Object.fromEntries(
    text
      .split(",")
      .map((one) => one.trim())
      .filter(Boolean)
      .map((one) => {
        const at = one.indexOf("=");
        return at < 0 ? [one, ""] : [one.slice(0, at).trim(), one.slice(at + 1).trim()];
      }),
  );

/** @param {Record<string, string> | null | undefined} labels @returns {string} */
export const labelsText = (labels) =>
  Object.entries(labels ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");
