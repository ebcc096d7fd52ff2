/** The tiles of the Overview: jobs by state, with their rates. */
import { html } from "../core/lib.js";
import { number, t } from "../core/i18n.js";
import { href } from "../core/router.js";
import { Num, State, durationText, steadyMs } from "../ui/formats.js";
import { WAIT_BAD_MS, WAIT_WARN_MS, startableOf } from "./faults.js";

/** @typedef {import("../../answers").Schemas["Stats"]} Stats */
/** @typedef {import("../core/lib.js").Node} Node */

// The failure rate from which a name is among the faults, if it has enough runs. Lower ones are only shown in the list
// of names.
export const FAILING_SHARE = 0.05;

/** @param {Record<string, number>} rates @returns {boolean} Whether so many jobs fail that it is worth a color. */
const isFailing = ({ failed = 0, succeeded = 0, discarded = 0 }) =>
  failed > 0 && failed >= FAILING_SHARE * (failed + succeeded + discarded);

/** @param {{stats: Stats}} props */
export function Tiles({ stats }) {
  const { counts, rates } = stats;
  const wait = stats.oldest_wait_ms;
  const startableMs = startableOf(stats).wait_ms;
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
        startableMs >= WAIT_BAD_MS ? "bad" : startableMs >= WAIT_WARN_MS ? "warn" : "",
      )}
      ${tile("running", t("tile.slots", { busy: stats.workers.busy, all: stats.workers.max_jobs }))}
      ${tile("retrying", t("tile.per_s", { rate: perS(rates.retried) }), counts["retrying"] ? "warn" : "")}
      ${tile("scheduled")}
      ${tile("failed", t("tile.per_s", { rate: perS(rates.failed) }), isFailing(rates) ? "bad" : "")}
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
