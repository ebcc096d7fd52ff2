/** The node of a Cluster that has a namespace, and the move to another node. The engine of the Cluster carries out the move. */
import { call, get, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { visible } from "../core/text.js";
import { Button, ErrorBox, Loading } from "../ui/controls.js";
import { Sure, attempt, toast } from "../ui/dialogs.js";
import { Badge, Bytes, Num, Text, Time } from "../ui/formats.js";
import { Table } from "../ui/tables.js";
import { pathOfNamespace } from "./editor.js";
import { KINDS, usePlan } from "./move.js";

/** @typedef {import("../../answers").Schemas["ClusterNodeView"]} Node */
/** @typedef {import("../../answers").Schemas["SlotMovePlanView"]} Plan */
/** @typedef {import("../../answers").Schemas["SlotMoveView"]} Move */

const POLL = { pollMs: 2000 };

/** @param {string} name The name of a namespace. */
const pathOfSlot = (name) => /** @type {const} */ (`${pathOfNamespace(name)}/slot`);

/** @param {string} name */
const pathOfMove = (name) => /** @type {const} */ (`${pathOfSlot(name)}/move`);

/** @param {{name: string, mayMove: boolean}} props */
export function SlotCard({ name, mayMove }) {
  const [target, setTarget] = useState("");
  const found = useResource((signal) => get(pathOfSlot(name), {}, signal), [name], POLL);
  const slot = found.data;
  const isMoving = slot?.move?.ended_at === null;
  const abort = async () => {
    if (await attempt(() => call("DELETE", pathOfMove(name)), t("namespaces.move.aborting")))
      await found.reload();
  };
  const isOffered = mayMove && slot && !slot.fault && !isMoving;
  return html`<section class="card"><h2>${t("namespaces.slot")}</h2>
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${!slot && !found.problem && html`<${Loading} />`}
      ${
        slot &&
        html`<dl class="facts">
            <dt>${t("namespaces.slot.number")}</dt><dd><${Num} value=${slot.slot} /></dd>
            <dt>${t("namespaces.slot.node")}</dt><dd>${slot.node === null ? t("namespaces.slot.nowhere") : html`<${Text} value=${slot.node} max=${60} />`}</dd>
            ${slot.move && html`<${MoveFacts} move=${slot.move} />`}
          </dl>
          ${mayMove && isMoving && html`<p><${Button} onClick=${abort}>${t("namespaces.move.abort")}<//></p>`}
          ${mayMove && slot.fault && html`<p class="muted"><${Text} value=${slot.fault} max=${400} /></p>`}
          <div class="after"><${Table}
            caption=${t("namespaces.slot.nodes")} rows=${slot.nodes} rowKey=${(/** @type {Node} */ one) => one.id}
            label=${(/** @type {Node} */ one) => one.address}
            columns=${columnsOf(isOffered ? setTarget : null)} /></div>`
      }
      ${
        target &&
        html`<${SlotMoveDialog}
          name=${name} target=${target} onClose=${() => setTarget("")} onDone=${found.reload} />`
      }
    </section>`;
}

/**
 * @param {((address: string) => void) | null} onMove null: the slot cannot be moved now.
 * @returns {import("../ui/tables.js").Column<Node>[]}
 */
const columnsOf = (onMove) => [
  {
    key: "node",
    label: t("namespaces.slot.node"),
    phone: "main",
    render: (/** @type {Node} */ one) => html`<${Text} value=${one.address} max=${60} />`,
  },
  {
    key: "memory",
    label: t("namespaces.memory"),
    align: "end",
    phone: "line",
    render: (/** @type {Node} */ { used_memory_bytes: used, max_memory_bytes: most }) =>
      html`<${Bytes} value=${used} />${most !== null && html` / <${Bytes} value=${most} />`}`,
  },
  {
    key: "move",
    label: t("job.actions"),
    align: "end",
    phone: "side",
    render: (/** @type {Node} */ one) =>
      one.has_slot
        ? html`<span class="muted">${t("namespaces.slot.here")}</span>`
        : onMove &&
          html`<${Button} opensDialog class="small" onClick=${() => onMove(one.address)}>${t("namespaces.slot.move")}<//>`,
  },
];

/** @param {{move: Move}} props */
const MoveFacts = ({ move }) =>
  html`<dt>${t("namespaces.move.card")}</dt>
    <dd><${Badge} kind=${KINDS[move.state] ?? "info"}>${t(`namespaces.slot.state.${move.state}`)}<//>
      ${" "}${t("namespaces.slot.way", { source: visible(move.source), target: visible(move.target) })}</dd>
    ${move.reason && html`<dt>${t("namespaces.move.reason")}</dt><dd><${Text} value=${move.reason} max=${300} /></dd>`}
    <dt>${t("namespaces.move.began")}</dt><dd><${Time} at=${move.began_at} /></dd>
    ${move.ended_at && html`<dt>${t("namespaces.move.ended")}</dt><dd><${Time} at=${move.ended_at} /></dd>`}`;

/** @param {{name: string, target: string, onClose: () => void, onDone: () => unknown}} props */
function SlotMoveDialog({ name, target, onClose, onDone }) {
  /** @type {{plan: Plan | null, problem: import("../core/api.js").Problem | null}} */
  const { plan, problem } = usePlan(pathOfMove(name), "node", target);
  const begin = async () => {
    await post(pathOfMove(name), { node: target });
    toast(t("namespaces.move.begun", { name: visible(name) }));
    await onDone();
  };
  return html`<${Sure}
      title=${t("namespaces.slot.title", { name: visible(name), node: visible(target) })}
      verb=${t("namespaces.move")} isReady=${plan !== null} onConfirm=${begin} onClose=${onClose}>
      <p>${t("namespaces.slot.text")}</p>
      <${ErrorBox} problem=${problem} />
      ${!plan && !problem && html`<${Loading} />`}
      ${
        plan &&
        html`<div role="status"><dl class="facts">
          <dt>${t("namespaces.move.keys")}</dt><dd><${Num} value=${plan.keys} /></dd>
          <dt>${t("namespaces.memory")}</dt><dd><${Bytes} value=${plan.bytes} /></dd></dl></div>`
      }
    <//>`;
}
