/** The charts of the Overview. */
import { html, useMemo } from "../core/lib.js";
import { t } from "../core/i18n.js";
import { go } from "../core/router.js";
import { OUTCOMES } from "../core/states.js";
import { Chart } from "../ui/charts.js";
import { comparedWith, endsPerS } from "../ui/comparison.js";
import { useMarks } from "./marks.js";
import { durationText, perSText } from "../ui/formats.js";
import { completePoints, ratesOf } from "../ui/points.js";

/** @typedef {import("../../answers").Schemas["StatsHistory"]} History */
/** @typedef {import("../../answers").Schemas["StatsPoint"]} StatsPoint */

/** @param {{history: History, earlier: History | null, compared: string}} props */
export function Course({ history, earlier, compared }) {
  const marks = useMarks(history.points[0]?.at);
  const { xs, outcomes, bad, waits, backlog } = useMemo(() => {
    const points = completePoints(history);
    const perS = ratesOf(points, history.step_s);
    return {
      xs: points.map((point) => Date.parse(point.at) / 1000),
      outcomes: OUTCOMES.map((key) => ({ label: t(`state.${key}`), color: `--${key}`, values: perS(key) })),
      bad: [
        { label: t("state.failed"), color: "--failed", values: perS("failed") },
        { label: t("overview.retried"), color: "--retrying", values: perS("retried") },
      ],
      backlog: [
        { label: t("overview.backlog"), color: "--ready", values: points.map((point) => point.backlog) },
      ],
      waits: [
        {
          label: t("overview.wait_p95"),
          color: "--retrying",
          values: points.map((point) => point.wait?.p95_ms ?? null),
        },
        {
          label: t("overview.run_p95"),
          color: "--running",
          values: points.map((point) => point.run?.p95_ms ?? null),
        },
      ],
    };
  }, [history]);
  const before = useMemo(() => {
    /** @param {(point: StatsPoint, stepS: number) => number | null} valueOf */
    const by = (valueOf) => comparedWith(earlier, compared, xs, valueOf);
    return {
      outcomes: by(endsPerS),
      bad: by((point, stepS) => point.failed / stepS),
      backlog: by((point) => point.backlog),
      waits: by((point) => point.wait?.p95_ms ?? null),
    };
  }, [earlier, compared, xs]);
  return html`<${Chart}
      label=${t("overview.throughput")} xs=${xs} series=${outcomes} before=${before.outcomes} marks=${marks}
      listsMarks isStacked
      onRange=${(/** @type {string} */ from, /** @type {string} */ to) =>
        go("jobs", { finished_after: from, finished_before: to })}
      height=${210} format=${perSText} />
    <h3>${t("overview.failures")}</h3>
    <${Chart}
      label=${t("overview.failures")} xs=${xs} series=${bad} before=${before.bad} marks=${marks} height=${110}
      onRange=${(/** @type {string} */ from, /** @type {string} */ to) =>
        go("jobs", { state: "failed", finished_after: from, finished_before: to })}
      format=${perSText} />
    <div class="charts">
      <div>
        <h3>${t("overview.backlog")}</h3>
        <${Chart}
          label=${t("overview.backlog")} xs=${xs} series=${backlog} before=${before.backlog} marks=${marks}
          height=${140} />
      </div>
      <div>
        <h3>${t("overview.times")}</h3>
        <${Chart}
          label=${t("overview.times")} xs=${xs} series=${waits} before=${before.waits} marks=${marks}
          height=${140} format=${durationText} />
      </div>
    </div>`;
}
