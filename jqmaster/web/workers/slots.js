/** The slots of a worker: how many jobs it may run. An operator sets them, and may keep them for later workers. */
import { del, get, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { Button, ErrorBox } from "../ui/controls.js";
import { attempt } from "../ui/dialogs.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Num, Text, Time } from "../ui/formats.js";
import { FormCheck, FormField, useForm } from "../ui/forms.js";
import { Table } from "../ui/tables.js";

/** @typedef {import("../../answers").Schemas["SlotRuleView"]} SlotRule */
/** @typedef {import("../../answers").Schemas["WorkerView"]} Worker */

/** @param {{worker: Worker, what: string, onClose: () => void, onDone: () => unknown}} props `what`: the words for the worker. */
export function SlotsDialog({ worker, what, onClose, onDone }) {
  const form = useForm(null, () => ({ max_jobs: String(worker.max_jobs), keep: "" }));
  const path = /** @type {const} */ (`api/workers/${encodeURIComponent(worker.id)}/slots`);
  const set = async (/** @type {number | null} */ maxJobs, keep = false) => {
    const answer = await post(path, { max_jobs: maxJobs, keep });
    await onDone();
    return answer.max_jobs;
  };
  const save = async (/** @type {import("../ui/forms.js").Values} */ { max_jobs, keep }) => {
    const before = worker.max_jobs;
    const now = await set(Number(max_jobs), Boolean(keep));
    const undo = () => attempt(() => set(before), t("workers.slots.set", { count: before }));
    // Offer no undo for a kept number: undo would not remove it from the list of kept numbers.
    return keep
      ? t("workers.slots.kept", { count: now })
      : { text: t("workers.slots.set", { count: now }), undo };
  };
  return html`<${FormDialog} title=${t("workers.slots.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("workers.slots.save")}>
    <p><strong><${Text} value=${what} max=${120} /></strong></p><p class="muted">${t("workers.slots.text", { own: worker.own_max_jobs ?? worker.max_jobs })}</p>
    <${FormField} form=${form} name="max_jobs" type="number" min="1" max="1000" required label=${t("workers.slots")} />
    <${FormCheck} form=${form} name="keep">${t("workers.slots.keep")}<//><//>`;
}

/** @param {{mayOperate: boolean}} props The numbers of slots that are kept for nodes and labels. Shows nothing if there are no kept numbers. */
export function SlotRules({ mayOperate }) {
  const { data, problem, reload } = useResource((signal) => get("api/slot-rules", {}, signal), [], {
    events: ["workers"],
    leastMs: 1000,
    pollMs: 10_000,
  });
  const rules = data?.slot_rules ?? [];
  if (rules.length === 0) return html`<${ErrorBox} problem=${problem} onRetry=${reload} />`;
  const remove = (/** @type {SlotRule} */ rule) =>
    attempt(() => del(`api/slot-rules/${encodeURIComponent(rule.id)}`), t("workers.slots.rule.removed")).then(
      reload,
    );
  return html`<section class="after">
      <h2>${t("workers.slots.rules")}</h2>
      <p class="muted">${t("workers.slots.rules.text")}</p>
      <${ErrorBox} problem=${problem} onRetry=${reload} />
      <${Table}
        caption=${t("workers.slots.rules")} rows=${rules} rowKey=${(/** @type {SlotRule} */ rule) => rule.id}
        columns=${ruleColumns(mayOperate ? remove : null)} />
    </section>`;
}

/** @param {((rule: SlotRule) => void) | null} onRemove @returns {import("../ui/tables.js").Column<SlotRule>[]} */
function ruleColumns(onRemove) {
  const labels = (/** @type {SlotRule} */ rule) =>
    Object.entries(rule.labels)
      .map(([key, value]) => `${key}=${value}`)
      .join(", ");
  /** @type {import("../ui/tables.js").Column<SlotRule>[]} */
  const columns = [
    {
      key: "node",
      label: t("workers.host"),
      render: (rule) => html`<${Text} value=${rule.node_id || "–"} max=${60} />`,
    },
    {
      key: "labels",
      label: t("workers.labels"),
      render: (rule) => html`<${Text} value=${labels(rule) || "–"} max=${80} />`,
    },
    {
      key: "slots",
      label: t("workers.slots"),
      align: "end",
      render: (rule) => html`<${Num} value=${rule.max_jobs} />`,
    },
    {
      key: "by",
      label: t("workers.slots.by"),
      priority: 3,
      render: (rule) => html`<${Text} value=${rule.set_by} max=${40} />`,
    },
    {
      key: "at",
      label: t("workers.slots.at"),
      align: "end",
      priority: 3,
      render: (rule) => html`<${Time} at=${rule.set_at} />`,
    },
  ];
  if (onRemove)
    columns.push({
      key: "act",
      label: t("job.actions"),
      render: (rule) =>
        html`<${Button}
            class="small" aria-label=${`${t("workers.slots.rule.remove")}: ${rule.node_id}`}
            onClick=${() => onRemove(rule)}>
            ${t("workers.slots.rule.remove")}
          <//>`,
    });
  return columns;
}
