/** The cards of the Overview: workers, masters and the store. */
import { html } from "../core/lib.js";
import { number, t, tOr } from "../core/i18n.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Bar } from "../ui/controls.js";
import { Badge, Bytes, Duration, Num, Text } from "../ui/formats.js";
import { worst } from "./findings.js";

/** @typedef {import("../../answers").Schemas["Stats"]} Stats */
/** @typedef {import("../../answers").Schemas["MasterView"]} Master */

/** States of workers that are shown only if some workers are in them. */
const UNUSUAL = /** @type {const} */ (["stale", "draining", "detached"]);

/** @param {{stats: Stats}} props */
export function Workers({ stats }) {
  const { workers } = stats;
  return html`<section class="card" aria-labelledby="workers">
      <h2 id="workers"><a href=${href("workers")}>${t("nav.workers")}</a></h2>
      <p class="glance">
        <b><${Num} value=${workers.fresh} /></b> ${t("worker.fresh")}
        ${UNUSUAL.filter((state) => workers[state] > 0).map(
          (state) =>
            html` <${Badge} kind=${state === "draining" ? "info" : "warn"}>${number(workers[state])} ${t(`worker.${state}`)}<//>`,
        )}
      </p>
      <p>${t("overview.slots", { busy: workers.busy, all: workers.max_jobs })}</p>
      <${Bar}
        value=${workers.busy} of=${workers.max_jobs} label=${t("overview.slots.label")}
        kind=${workers.max_jobs > 0 && workers.busy >= workers.max_jobs ? "warn" : "info"} />
      ${workers.fresh === 0 && html`<p class="muted">${t("overview.no_worker")}</p>`}
    </section>`;
}

/** @param {{stats: Stats, masters: Master[]}} props */
export function Masters({ stats, masters }) {
  return html`<section class="card" aria-labelledby="masters">
      <h2 id="masters"><a href=${href("masters")}>${t("nav.masters")}</a></h2>
      <p class="glance">
        <b><${Num} value=${stats.masters.fresh} /></b> ${t("master.fresh")} ${
          stats.masters.stale > 0 &&
          html`<${Badge} kind="warn">${number(stats.masters.stale)} ${t("master.stale")}<//>`
        }
        ${stats.masters.leader_id === null && html`<${Badge} kind="bad">${t("master.no_leader")}<//>`}
      </p>
      <ul class="plain">
        ${masters.slice(0, 6).map(
          (master) =>
            html`<li key=${master.id}>
                  <${Badge}
                    kind=${master.state === "stale" ? "warn" : master.role === "leader" ? "ok" : "off"}>
                    ${
                      master.state === "stale"
                        ? t("master.stale")
                        : tOr(`master.${master.role}`, visible(master.role))
                    }
                  <//> <${Text} value=${master.node_id} max=${60} /> <span class="muted">
                    ${visible(master.version)} · ${t("master.pid", { pid: String(master.pid) })}
                  </span>
                </li>`,
        )}
      </ul>
    </section>`;
}

/** @param {{store: Stats["store"], findings: import("./findings.js").Finding[]}} props */
export function Store({ store, findings }) {
  return html`<section class="card" aria-labelledby="store">
      <h2 id="store">${t("overview.store")}</h2>
      <dl class="facts">
        <dt>${t("store.health")}</dt>
        <dd>
          ${
            store.faults.length
              ? html`<${Badge} kind="bad">${t("store.faults", { count: store.faults.length })}<//>`
              : html`<${Badge} kind="ok">${t("store.well")}<//>`
          }
        </dd>
        <dt>${t("store.server")}</dt><dd><${Text} value=${store.server} max=${80} /></dd>
        <dt>${t("store.durability")}</dt>
        <dd>
          ${visible(store.durability)} ${
            worst(findings, "durability") &&
            html`<${Badge} kind="bad">${t("store.gives", { given: visible(store.durability_available) })}<//>`
          }
          <span class="hint-line">${tOr(`durability.${store.durability}`, "")}</span>
        </dd>
        <dt>${t("store.memory")}</dt>
        <dd>
          <${Bytes} value=${store.used_memory_bytes} />
          ${
            store.max_memory_bytes
              ? html` / <${Bytes} value=${store.max_memory_bytes} /> <${Bar}
                  value=${store.used_memory_bytes} of=${store.max_memory_bytes} label=${t("store.memory")}
                  kind=${worst(findings, "memory") || "info"} />`
              : ""
          }
        </dd>
        <dt>${t("store.latency")}</dt><dd><${Duration} ms=${store.latency_ms} /></dd>
      </dl>
    </section>`;
}
