/** Selects the marks for the chart of one job name: changes that may have affected how its jobs run. */

/** @typedef {import("../../answers").Schemas["Matcher"]} Matcher */
/** @typedef {import("../../answers").Schemas["MarkView"]} Mark */

/**
 * @param {string} pattern The pattern of a condition `glob`.
 * @returns {RegExp | null} Null: the pattern has character classes, which only the master evaluates.
 */
const globOf = (pattern) =>
  pattern.includes("[")
    ? null
    : new RegExp(
        `^${pattern
          .replace(/[.+^${}()|\\\]]/g, "\\$&")
          .replace(/\*/g, ".*")
          .replace(/\?/g, ".")}$`,
        "s",
      );

/**
 * @param {Matcher} matcher
 * @param {string} name
 * @returns {boolean | null} Whether the matcher selects jobs of this name. Null: this depends on more than the name.
 */
export function selects(matcher, name) {
  if ("all" in matcher || "any" in matcher) {
    // The result of one condition that decides the whole matcher: false for `all`, and true for `any`.
    const [parts, decisive] = "all" in matcher ? [matcher.all, false] : [matcher.any, true];
    const found = parts.map((part) => selects(part, name));
    if (found.includes(decisive)) return decisive;
    return found.includes(null) ? null : !decisive;
  }
  if ("not" in matcher) {
    const found = selects(matcher.not, name);
    return found === null ? null : !found;
  }
  if (matcher.field !== "name") return null;
  const { op, value } = matcher;
  switch (op) {
    case "eq":
      return value === name;
    case "ne":
      return value !== name;
    case "in":
      return Array.isArray(value) ? value.includes(name) : null;
    case "glob":
      return typeof value === "string" ? (globOf(value)?.test(name) ?? null) : null;
    default:
      return null;
  }
}

/** @param {Mark} mark @param {string} name @returns {boolean} */
export function isAbout(mark, name) {
  switch (mark.kind) {
    case "deploy": {
      // If a worker has many names, the mark lists the first names and the number of other names, such as "+5".
      const names = (mark.entry?.label ?? "").split(", ");
      return names.includes(name) || names.some((one) => one.startsWith("+"));
    }
    case "pause":
    case "resume":
    case "constraint":
      return mark.matcher === null || selects(mark.matcher, name) !== false;
    case "leader":
    case "incident":
    case "settings":
      return true;
    default:
      return false;
  }
}
