/** The tiles of the Overview: jobs by state, with their rates. */
import { html } from "../core/lib.js";
import { number, t } from "../core/i18n.js";
import { href } from "../core/router.js";
import { Num, State, durationText, steadyMs } from "../ui/formats.js";
import { worst } from "./findings.js";

/** @typedef {import("../../answers").Schemas["Stats"]} Stats */
/** @typedef {import("../core/lib.js").Node} Node */

/** @param {{stats: Stats, findings: import("./findings.js").Finding[]}} props `findings`: their severity determines the colour of a tile. */
export function Tiles({ stats, findings }) {
  const { counts, rates } = stats;
  const wait = stats.oldest_wait_ms;
  const perS = (/** @type {number} */ rate) => number(rate, { maximumFractionDigits: rate < 10 ? 2 : 0 });
  /** @param {string} state @param {Node} [more] @param {string} [kind] */
  const tile = (state, more, kind = "") =>
    html`<a class=${`tile ${kind}`} href=${href("jobs", { state })}>
        <span class="tile-label"><${State} state=${state} /></span>
        <b><${Num} value=${counts[state] ?? 0} /></b><span class="tile-more">${more ?? " "}</span>
      </a>`;
  return html`<div class="tiles">
      ${tile(
        "ready",
        wait === null
          ? t("tile.nothing_waits")
          : t("tile.oldest", { duration: durationText(steadyMs(wait)) }),
        worst(findings, "wait", "orphan", "no_worker"),
      )}
      ${tile("running", t("tile.slots", { busy: stats.workers.busy, all: stats.workers.max_jobs }))}
      ${tile("retrying", t("tile.per_s", { rate: perS(rates.retried) }), counts["retrying"] ? "warn" : "")}
      ${tile("scheduled")}
      ${tile("failed", t("tile.per_s", { rate: perS(rates.failed) }), worst(findings, "failing", "rising"))}
      ${tile("succeeded", t("tile.per_s", { rate: perS(rates.succeeded) }))}
      ${
        (counts["discarded"] || rates.discarded || 0) > 0 &&
        tile("discarded", t("tile.per_s", { rate: perS(rates.discarded ?? 0) }))
      }
      <div class="tile">
        <span class="tile-label">${t("tile.pushed")}</span><b class="num">${perS(rates.pushed)}</b>
        <span class="tile-more">${t("tile.last_minute")}</span>
      </div>
    </div>`;
}
