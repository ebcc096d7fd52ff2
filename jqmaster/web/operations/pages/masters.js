/** The masters: the leader, the sub-leader that would take over, and the changes of the lead. */
import { html, useState } from "../../core/lib.js";
import { Problem, get, may, post } from "../../core/api.js";
import { t, tOr } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { Store } from "../cards.js";
import { useHealth } from "../findings.js";
import { RunbookLink } from "../runbook_link.js";
import { visible } from "../../core/text.js";
import { Button, ErrorBox, Loading } from "../../ui/controls.js";
import { Dialog, toast } from "../../ui/dialogs.js";
import { Badge, Id, Text, Time } from "../../ui/formats.js";
import { Table } from "../../ui/tables.js";
import { whoText } from "../../identity/value_words.js";

/** @typedef {import("../../../answers").Schemas["AuditEntryView"]} AuditEntry */
/** @typedef {import("../../../answers").Schemas["MasterView"]} Master */

// How often to poll. No event announces that a master was heard.
const POLL_MS = 2000;
const NEWEST = 500;
const CHANGES = ["master.demote", "master.take_over"];

/** @param {{session: import("../../core/api.js").Session}} props */
export function Page({ session }) {
  const { data, problem, reload } = useResource((signal) => get("api/masters", {}, signal), [], {
    events: ["masters"],
    leastMs: 1000,
    pollMs: POLL_MS,
  });
  const stats = useResource((signal) => get("api/stats", {}, signal), [], { everyMs: 10_000 });
  const { findings } = useHealth();
  const [leaving, setLeaving] = useState(/** @type {Master | null} */ (null));
  const masters = data?.masters ?? [];
  const leader = masters.find((master) => master.role === "leader");
  const mayOperate = may(session, "operate");
  return html`<div class="page-head">
      <h1>${t("nav.masters")}</h1>
      ${
        data &&
        html`<span class="muted">${t("masters.epoch")} <code class="num">${String(data.epoch)}</code></span>`
      }
    </div>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : html`${
            !leader &&
            html`<p class="fault bad" role="alert">
                <${Badge} kind="bad">${t("fault.bad")}<//>
                <span class="fault-text">${t("health.no_leader")}</span><${RunbookLink} code="no_leader" />
              </p>`
          }
          <${Table}
            caption=${t("nav.masters")} rows=${masters} rowKey=${(/** @type {Master} */ master) => master.id}
            columns=${columnsOf(mayOperate ? setLeaving : null)} />
          <p class="muted after">${t("masters.text")}</p>
          ${stats.data && html`<div class="cards after"><${Store} store=${stats.data.store} findings=${findings} /></div>`}
          ${mayOperate && html`<${Leaders} epoch=${data.epoch} />`}`
    }
    ${
      leaving &&
      html`<${Demote}
          master=${leaving}
          others=${masters.filter((master) => master.id !== leaving.id && master.state === "fresh").length}
          onClose=${() => setLeaving(null)} onDone=${reload} />`
    }`;
}

/** @param {((master: Master) => void) | null} onDemote @returns {import("../../ui/tables.js").Column<Master>[]} */
function columnsOf(onDemote) {
  /** @type {import("../../ui/tables.js").Column<Master>[]} */
  const columns = [
    {
      key: "role",
      label: t("masters.role"),
      render: ({ role }) =>
        html`<${Badge} kind=${role === "leader" ? "ok" : role === "sub_leader" ? "info" : "off"}>
            ${tOr(`master.${role}`, visible(role))}
          <//>`,
    },
    {
      key: "state",
      label: t("job.state"),
      render: ({ state }) =>
        html`<${Badge} kind=${state === "fresh" ? "ok" : "warn"}>${tOr(`master.${state}`, visible(state))}<//>`,
    },
    {
      key: "node",
      label: t("workers.host"),
      render: (master) =>
        html`<${Text} value=${master.node_id} max=${60} /> <span class="muted num">${master.pid}</span>`,
    },
    {
      key: "seen",
      label: t("workers.seen"),
      align: "end",
      priority: 2,
      render: (master) => html`<${Time} at=${master.last_seen_at} />`,
    },
    {
      key: "started",
      label: t("masters.started"),
      align: "end",
      priority: 2,
      render: (master) => html`<${Time} at=${master.started_at} />`,
    },
    {
      key: "url",
      label: t("workers.address"),
      priority: 2,
      render: (master) => html`<${Text} value=${master.url} max=${80} />`,
    },
    {
      key: "version",
      label: t("workers.version"),
      priority: 3,
      render: (master) => html`<${Text} value=${master.version} max=${40} />`,
    },
    { key: "id", label: t("job.id"), priority: 3, render: (master) => html`<${Id} id=${master.id} />` },
  ];
  if (onDemote)
    columns.push({
      key: "act",
      label: t("job.actions"),
      align: "end",
      render: (master) =>
        master.role === "leader" &&
        html`<${Button} opensDialog class="small" onClick=${() => onDemote(master)}>${t("masters.demote")}<//>`,
    });
  return columns;
}

/** @param {{master: Master, others: number, onClose: () => void, onDone: () => Promise<void>}} props */
function Demote({ master, others, onClose, onDone }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const confirm = async () => {
    try {
      await post(`api/masters/${encodeURIComponent(master.id)}/demote`);
      toast(t("masters.demoted"));
      await onDone();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("masters.demote.title")} onClose=${onClose}>
    <p>${t("masters.demote.text")}</p><p>${t("masters.others", { count: others })}</p><${ErrorBox} problem=${problem} />
    <footer><${Button} onClick=${onClose}>${t("cancel")}<//><${Button} kind="danger" onClick=${confirm}>${t("masters.demote")}<//></footer><//>`;
}

/**
 * The changes of the leader that people made, from the newest entries of the audit log.
 * @param {{epoch: number}} props
 */
function Leaders({ epoch }) {
  const { data, problem } = useResource((signal) => get("api/audit", { limit: NEWEST }, signal), [epoch]);
  const entries = (data?.entries ?? []).filter((entry) => CHANGES.includes(entry.action));
  return html`<section class="after" aria-labelledby="leaders"><h2 id="leaders">${t("masters.history")}</h2><${ErrorBox} problem=${problem} />
    ${
      data &&
      (entries.length === 0
        ? html`<p class="muted">${t("masters.history.none")} <a href=${href("audit")}>${t("nav.audit")}</a></p>`
        : html`<${Table} caption=${t("masters.history")} rows=${entries} rowKey=${(/** @type {AuditEntry} */ entry) => entry.id} columns=${[
            {
              key: "at",
              label: t("audit.at"),
              render: (/** @type {AuditEntry} */ entry) => html`<${Time} at=${entry.at} isPast />`,
            },
            {
              key: "action",
              label: t("audit.action"),
              render: (/** @type {AuditEntry} */ entry) => tOr(`act.${entry.action}`, visible(entry.action)),
            },
            {
              key: "target",
              label: t("audit.target"),
              render: (/** @type {AuditEntry} */ entry) => html`<${Text} value=${entry.target} max=${80} />`,
            },
            {
              key: "who",
              label: t("audit.who"),
              render: (/** @type {AuditEntry} */ entry) =>
                html`<${Text} value=${whoText(entry.who)} max=${80} />`,
            },
          ]} />`)
    }</section>`;
}
