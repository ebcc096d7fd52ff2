/** The marks of a period, for charts. */
import { useMemo } from "../core/lib.js";
import { get } from "../core/api.js";
import { tOr } from "../core/i18n.js";
import { useResource } from "../core/resource.js";
import { visible } from "../core/text.js";
import { isAbout } from "./mark_filter.js";
import { markLink, markText } from "./mark_words.js";

const MIN_MS = 10_000;
const POLL_MS = 30_000;

/**
 * @param {string | undefined} since ISO 8601; undefined: not known yet.
 * @param {string} [name] A job name: return only marks about jobs of this name.
 * @returns {import("../ui/chart_marks.js").ChartMark[]}
 */
export function useMarks(since, name = "") {
  // `since` changes every minute. Do not load the marks again for each change.
  const { data } = useResource(
    (signal) => (since ? get("api/marks", { since }, signal) : Promise.resolve(null)),
    [since === undefined],
    { events: ["constraints", "masters", "workers"], leastMs: MIN_MS, pollMs: POLL_MS },
  );
  return useMemo(
    () =>
      (data?.marks ?? [])
        .filter((mark) => !name || isAbout(mark, name))
        .map((mark) => ({
          atMs: Date.parse(mark.at),
          untilMs: mark.until ? Date.parse(mark.until) : null,
          kind: mark.kind,
          label: tOr(`mark.kind.${mark.kind}`, visible(mark.kind)),
          text: markText(mark),
          link: markLink(mark),
        })),
    [data, name],
  );
}
