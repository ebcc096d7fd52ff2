/** The page of namespaces. It shows the list of namespaces (those with faults first) and the stores, or one namespace with its actions. */
import { call, get, may, post } from "../../core/api.js";
import { curl } from "../../core/curl.js";
import { t } from "../../core/i18n.js";
import { html, useEffect, useState } from "../../core/lib.js";
import { useResource } from "../../core/resource.js";
import { DEFAULT, addressOf } from "../../core/namespaces.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Changes } from "../../identity/changes.js";
import { Absent } from "../../ui/absent.js";
import { Bar, Button, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { Sure, attempt, toast } from "../../ui/dialogs.js";
import { Badge, Duration, Id, Num, Text } from "../../ui/formats.js";
import { Field } from "../../ui/forms.js";
import { Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { useTitle } from "../../ui/titles.js";
import { faultOf, isBad, isFull, isWarned, worstFirst } from "../conditions.js";
import { NamespaceEditor, QUOTAS, pathOfNamespace } from "../editor.js";
import { loadNamespaces } from "../known.js";
import { MoveCard, MoveDialog, pathOfMove } from "../move.js";
import { SlotCard } from "../slot.js";
import { Stores } from "../stores.js";

/** @typedef {import("../conditions.js").Entry} Entry */
/** @typedef {import("../known.js").Namespace} Namespace */
/** @typedef {import("../../../answers").Schemas["NamespaceDetails"]} Detail */
/** @typedef {import("../../core/api.js").Session} Session */
/** @typedef {import("../../core/lib.js").FieldEvent} FieldEvent */
/** @typedef {typeof import("../../core/router.js").go} Go */

/** How often to poll the figures. Many readers cost little, because a master reads the figures at most once a second. */
const FIGURES = { pollMs: 2000 };
const STORES = { pollMs: 5000 };

/** @param {{query: Record<string, string>, go: Go, session: Session}} props */
export function Page({ query, go, session }) {
  const { name } = query;
  return name
    ? html`<${One} key=${name} name=${name} go=${go} session=${session} />`
    : html`<${List} go=${go} session=${session} />`;
}

/** @param {Entry} one */
const nameOf = (one) => one.name;

/** @param {{one: Entry}} props */
function StateBadge({ one }) {
  const kind = isBad(one) ? "bad" : isWarned(one) ? "warn" : one.state === "open" ? "ok" : "off";
  return html`<${Badge} kind=${kind}>${isBad(one) && one.state === "open" ? t("fault.bad") : t(`namespaces.state.${one.state}`)}<//>`;
}

/** @param {{one: Entry}} props The share of the quota of waiting jobs. */
const Use = ({ one }) =>
  one.waiting_quota === null
    ? html`<span class="muted">${t("none")}</span>`
    : html`<span class="row">
        <${Num} value=${one.waiting_quota * 100} /> % <${Bar}
          value=${Math.min(1, one.waiting_quota)} of=${1} label=${t("namespaces.quota")}
          kind=${isFull(one) ? "bad" : "info"} />
      </span>`;

/** @param {{one: Entry}} props */
const Wait = ({ one }) =>
  one.oldest_wait_s === null
    ? html`<${Num} value=${null} />`
    : html`<${Duration} ms=${one.oldest_wait_s * 1000} />`;

/** @param {{go: Go, session: Session}} props */
function List({ go, session }) {
  const hold = useHold();
  const [isMaking, setMaking] = useState(false);
  const found = useResource((signal) => get("api/overview", {}, signal), [], FIGURES);
  const stores = useResource((signal) => get("api/stores", {}, signal), [], STORES);
  // Load the list again: namespaces may have been created since the page was loaded.
  useEffect(() => void loadNamespaces(), []);
  const entries = worstFirst(found.data?.namespaces ?? []);
  const { rows } = useSteadyRows(entries, nameOf, hold.isHeld, "");
  const configured = stores.data?.stores ?? [];
  return html`<div class="page-head">
      <h1>${t("nav.namespaces")}</h1>
      ${
        may(session, "admin") &&
        html`<${Button} opensDialog class="small" kind="primary" onClick=${() => setMaking(true)}>${t("namespaces.make")}<//>`
      }
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div class="stack">
      ${entries.filter(faultOf).map(
        (one) =>
          html`<p key=${one.name} class=${`fault ${isBad(one) ? "bad" : ""}`}>
                <${Badge} kind=${isBad(one) ? "bad" : "warn"}>
                  ${t(isBad(one) ? "fault.bad" : "fault.warn")}
                <//>
                <span class="fault-text">
                  <a href=${href("namespaces", { name: one.name })}>${visible(one.name)}</a>
                  : <${Text} value=${faultOf(one)} max=${300} />
                </span>
              </p>`,
      )}
    </div>
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<div ...${hold.bind}>
            <${Table}
              caption=${t("nav.namespaces")} rows=${rows} rowKey=${nameOf} label=${nameOf}
              onOpen=${(/** @type {Entry} */ one) => go("namespaces", { name: one.name })}
              columns=${COLUMNS.map((column) => ({ ...column, label: labelOf(column) }))} />
          </div>
          ${
            entries.length === 1 &&
            html`<${Empty} title=${t("namespaces.only")} curl=${curl(session, "PUT", "api/namespaces/shop", { body: { title: "Shop" } })} />`
          }`
    }
    <${ErrorBox} problem=${stores.problem} onRetry=${stores.reload} />
    ${configured.length > 0 && html`<${Stores} stores=${configured} />`}
    ${
      isMaking &&
      html`<${NamespaceEditor}
          one=${null} stores=${configured.map((store) => store.name)} onClose=${() => setMaking(false)}
          onDone=${(/** @type {string} */ name) => go("namespaces", { name })} />`
    }`;
}

/** @param {{label: string, hint?: string}} column `hint`: the full text of a label that is too long for a column. */
const labelOf = ({ label, hint }) => (hint ? html`<span title=${t(hint)}>${t(label)}</span>` : t(label));

/** @type {(import("../../ui/tables.js").Column<Entry> & {label: string, hint?: string})[]} */
const COLUMNS = [
  {
    key: "name",
    label: "namespaces.one",
    phone: "main",
    render: (/** @type {Entry} */ one) =>
      html`<a href=${href("namespaces", { name: one.name })}>${visible(one.name)}</a> <span class="muted"><${Text} value=${one.title} max=${100} /></span>`,
  },
  {
    key: "state",
    label: "namespaces.state",
    phone: "side",
    render: (/** @type {Entry} */ one) => html`<${StateBadge} one=${one} />`,
  },
  {
    key: "ready",
    label: "state.ready",
    align: "end",
    phone: "line",
    render: (/** @type {Entry} */ one) => html`<${Num} value=${one.ready} />`,
  },
  {
    key: "running",
    label: "state.running",
    align: "end",
    priority: 2,
    render: (/** @type {Entry} */ one) => html`<${Num} value=${one.running} />`,
  },
  {
    key: "wait",
    label: "namespaces.wait",
    align: "end",
    phone: "line",
    render: (/** @type {Entry} */ one) => html`<${Wait} one=${one} />`,
  },
  {
    key: "quota",
    label: "namespaces.quota",
    priority: 2,
    render: (/** @type {Entry} */ one) => html`<${Use} one=${one} />`,
  },
  {
    key: "failures",
    label: "namespaces.failures",
    hint: "namespaces.failures.hours",
    align: "end",
    priority: 2,
    render: (/** @type {Entry} */ one) => html`<${Num} value=${one.failures} />`,
  },
  {
    key: "store",
    label: "namespaces.store",
    priority: 2,
    render: (/** @type {Entry} */ one) => html`<${Text} value=${one.store} max=${40} />`,
  },
  {
    key: "leader",
    label: "namespaces.leader",
    priority: 4,
    render: (/** @type {Entry} */ one) =>
      one.leader === null ? html`<${Num} value=${null} />` : html`<${Id} id=${one.leader} />`,
  },
  {
    key: "enter",
    label: "job.actions",
    align: "end",
    render: (/** @type {Entry} */ one) =>
      one.state === "open" &&
      html`<a href=${addressOf(one.name, "#/overview")} aria-label=${t("namespaces.enter.name", { name: visible(one.name) })}>${t("namespaces.enter")}</a>`,
  },
];

/** @param {{name: string, go: Go, session: Session}} props */
function One({ name, go, session }) {
  const path = pathOfNamespace(name);
  const [dialog, setDialog] = useState("");
  const found = useResource((signal) => get(path, {}, signal), [name], FIGURES);
  const figures = useResource((signal) => get("api/overview", {}, signal), [name], FIGURES);
  const stores = useResource((signal) => get("api/stores", {}, signal), [name], STORES);
  useTitle(name);
  const one = found.data;
  const entry = figures.data?.namespaces.find((other) => other.name === name);
  if (!one) return html`<${NoNamespace} name=${name} found=${found} session=${session} go=${go} />`;
  const fault = entry ? faultOf(entry) : "";
  const store = stores.data?.stores.find((other) => other.name === one.store);
  const isOnCluster = store?.topology === "cluster";
  const changed = async () => {
    await Promise.all([found.reload(), figures.reload(), loadNamespaces()]);
  };
  return html`<p class="crumbs"><a href=${href("namespaces")}>${t("nav.namespaces")}</a></p>
    <div class="page-head job-head">
      <h1><${Text} value=${name} max=${60} /></h1>${entry && html`<${StateBadge} one=${entry} />`}
    </div>
    <${ErrorBox} problem=${found.problem ?? figures.problem} onRetry=${changed} />
    ${
      fault &&
      html`<p class=${`fault ${entry && !isBad(entry) ? "" : "bad"}`} role="alert">
          <${Badge} kind=${entry && !isBad(entry) ? "warn" : "bad"}>
            ${t(entry && !isBad(entry) ? "fault.warn" : "fault.bad")}
          <//>
          <span class="fault-text"><${Text} value=${fault} max=${300} /></span>
        </p>`
    }
    <${Actions} one=${one} session=${session} onAsk=${setDialog} onDone=${changed} />
    <div class="job-grid">
      <div class="stack">
        <${Facts} one=${one} /><${MoveCard} one=${one} mayAbort=${may(session, "admin")} onDone=${changed} />
        ${isOnCluster && html`<${SlotCard} name=${name} mayMove=${may(session, "admin")} />`}
      </div>
      <div class="stack">${entry && html`<${Now} one=${entry} />`}</div>
    </div>
    ${may(session, "operate") && html`<${Changes} name=${name} etag=${String(one.version)} />`}
    <${Question} asked=${dialog} one=${one} go=${go} onClose=${() => setDialog("")} onDone=${changed} />`;
}

/**
 * @param {{name: string, found: {problem: import("../../core/api.js").Problem | null, reload: () => unknown}, session: Session, go: Go}} props
 */
function NoNamespace({ name, found, session, go }) {
  const [isDeleting, setDeleting] = useState(false);
  if (found.problem?.status === 404)
    return html`<${Absent} page="namespaces" title=${t("namespaces.unknown", { name: visible(name) })} found=${found} />`;
  return html`<p class="crumbs"><a href=${href("namespaces")}>${t("nav.namespaces")}</a></p>
    <h1><${Text} value=${name} max=${60} /></h1>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.problem && html`<${Loading} />`}
    ${
      found.problem?.code === "damaged" &&
      may(session, "admin") &&
      html`<div class="row actions">
        <${Button} opensDialog kind="danger" onClick=${() => setDeleting(true)}>${t("action.delete")}<//>
      </div>`
    }
    ${isDeleting && html`<${Deletion} name=${name} go=${go} isDamaged onClose=${() => setDeleting(false)} />`}`;
}

/** @param {{one: Detail, session: Session, onAsk: (dialog: string) => void, onDone: () => Promise<void>}} props */
function Actions({ one, session, onAsk, onDone }) {
  const { name } = one;
  const isAtRest = one.state !== "moving" && !one.move_fault && !(one.move && one.move.ended_at === null);
  const open = async () => {
    const act = () => post(`${pathOfNamespace(name)}/open`);
    if (await attempt(act, t("namespaces.opened", { name: visible(name) }))) await onDone();
  };
  return html`<div class="row actions" role="group" aria-label=${t("namespaces.actions")}>
      ${
        one.state === "open" &&
        html`<a class="button primary" href=${addressOf(name, "#/overview")}>${t("namespaces.enter.name", { name: visible(name) })}</a>`
      }
      ${
        may(session, "admin") &&
        html`<${Button} opensDialog onClick=${() => onAsk("edit")}>${t("namespaces.edit")}<//>
          ${
            name !== DEFAULT &&
            one.state === "open" &&
            html`<${Button} opensDialog onClick=${() => onAsk("close")}>${t("namespaces.close")}<//>`
          }
          ${
            one.move_fault &&
            html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("end")}>${t("namespaces.move.end")}<//>`
          }
          ${
            name !== DEFAULT &&
            isAtRest &&
            html`<${Button} opensDialog onClick=${() => onAsk("move")}>${t("namespaces.move")}<//>`
          }
          ${
            one.state === "closed" &&
            html`<${Button} onClick=${open}>${t("namespaces.open")}<//>
              <${Button} opensDialog kind="danger" onClick=${() => onAsk("delete")}>
                ${t("action.delete")}
              <//>`
          }`
      }
    </div>`;
}

/**
 * The dialog of an action.
 * @param {{asked: string, one: Detail, go: Go, onClose: () => void, onDone: () => Promise<void>}} props
 */
function Question({ asked, one, go, onClose, onDone }) {
  const { name } = one;
  const endMove = async () => {
    await call("DELETE", pathOfMove(name), { query: { force: true } });
    toast(t("namespaces.move.end.done", { name: visible(name) }));
    await onDone();
  };
  const close = async () => {
    await post(`${pathOfNamespace(name)}/close`);
    toast(t("namespaces.closed", { name: visible(name) }));
    await onDone();
  };
  switch (asked) {
    case "move":
      return html`<${MoveDialog} one=${one} onClose=${onClose} onDone=${onDone} />`;
    case "end":
      return html`<${Sure}
          title=${t("namespaces.move.end.title", { name: visible(name) })} verb=${t("namespaces.move.end")}
          onClose=${onClose} onConfirm=${endMove}>
          <p>${t("namespaces.move.end.text")}</p>
        <//>`;
    case "edit":
      return html`<${NamespaceEditor} one=${one} stores=${[]} onClose=${onClose} onDone=${onDone} />`;
    case "close":
      return html`<${Sure}
          title=${t("namespaces.close.title", { name: visible(name) })} verb=${t("namespaces.close")}
          onClose=${onClose} onConfirm=${close}>
          <p>${t("namespaces.close.text")}</p>
        <//>`;
    case "delete":
      return html`<${Deletion} name=${name} go=${go} onClose=${onClose} />`;
    default:
      return null;
  }
}

/** @param {{one: Namespace}} props */
function Facts({ one }) {
  return html`<section class="card">
      <h2>${t("namespaces.facts")}</h2>
      <dl class="facts">
        ${
          one.title &&
          html`<dt>${t("namespaces.title")}</dt><dd><${Text} value=${one.title} max=${100} /></dd>`
        }
        <dt>${t("namespaces.address")}</dt>
        <dd><code>${visible(new URL(addressOf(one.name), document.baseURI).href)}</code></dd>
        <dt>${t("namespaces.store")}</dt><dd><${Text} value=${one.store} max=${40} /></dd>
        <dt>${t("namespaces.tag")}</dt><dd><code>${visible(one.tag)}</code></dd>
        ${QUOTAS.map(
          (quota) =>
            html`<dt key=${quota}>${t(`namespaces.${quota}`)}</dt>
              <dd>
                ${
                  one.quotas[quota] === null
                    ? t("namespaces.quota.none")
                    : html`<${Num} value=${one.quotas[quota]} />`
                }
              </dd>`,
        )}
      </dl>
    </section>`;
}

/** @param {{one: Entry}} props */
function Now({ one }) {
  return html`<section class="card"><h2>${t("targets.now")}</h2><dl class="facts">
    <dt>${t("state.ready")}</dt><dd><${Num} value=${one.ready} /></dd>
    <dt>${t("state.running")}</dt><dd><${Num} value=${one.running} /></dd>
    <dt>${t("namespaces.waiting")}</dt><dd><${Num} value=${one.waiting} /></dd>
    <dt>${t("namespaces.wait")}</dt><dd><${Wait} one=${one} /></dd>
    <dt>${t("namespaces.quota")}</dt><dd><${Use} one=${one} /></dd>
    <dt>${t("namespaces.failures.hours")}</dt><dd><${Num} value=${one.failures} /></dd>
    <dt>${t("namespaces.leader")}</dt><dd>${one.leader === null ? html`<${Num} value=${null} />` : html`<${Id} id=${one.leader} />`}</dd></dl></section>`;
}

/**
 * The dialog that deletes a namespace. The user has to type the name.
 * @param {{name: string, go: Go, onClose: () => void, isDamaged?: boolean}} props
 */
function Deletion({ name, go, onClose, isDamaged = false }) {
  const [typed, setTyped] = useState("");
  const [isForced, setForced] = useState(isDamaged);
  const remove = async () => {
    await call("DELETE", pathOfNamespace(name), { query: { confirm: typed.trim(), force: isForced } });
    toast(t("namespaces.deleted", { name: visible(name) }));
    await loadNamespaces();
    go("namespaces");
  };
  return html`<${Sure}
      title=${t("namespaces.delete.title", { name: visible(name) })} verb=${t("action.delete")}
      isReady=${typed.trim() === name} onConfirm=${remove} onClose=${onClose}>
      <p>${t("namespaces.delete.text")}</p>
      <${Field} label=${t("namespaces.delete.type", { name: visible(name) })}>
        ${(/** @type {Record<string, unknown>} */ attributes) =>
          html`<input
              ...${attributes} name="confirm" autocomplete="off" autocapitalize="none" spellcheck=${false}
              value=${typed} onInput=${(/** @type {FieldEvent} */ event) => setTyped(event.target.value)} />`}
      <//>
      <label class="check">
        <input type="checkbox" checked=${isForced} onChange=${() => setForced(!isForced)} /> ${t(
          "namespaces.delete.force",
        )}
      </label>
    <//>`;
}
