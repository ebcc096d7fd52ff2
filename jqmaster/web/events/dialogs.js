/** Dialogs about events: send an event to try definitions, or send a stored event again. */
import { Problem, call, parseExact, post, toJson } from "../core/api.js";
import { useKnownTypes } from "./trigger_form.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { go } from "../core/router.js";
import { ConfirmCount, toast } from "../ui/dialogs.js";
import { FormDialog } from "../ui/form_dialog.js";
import { FormField, JsonHint, useForm } from "../ui/forms.js";
import { LATEST, inZone, instantIn, useZone } from "../ui/instants.js";

/** @typedef {import("../../answers").Schemas["EventAnswer"]} EventAnswer */

/** @typedef {import("../../answers").Schemas["EventView"]} Event */

/** @typedef {import("../ui/forms.js").Values} Values */

/** @typedef {{event_type?: string, payload?: unknown, source?: string, subject?: string} | null} Like An event, or fields of one. */

/** @param {EventAnswer} answer The answer to an event that was sent. @returns {string} What the event started. */
function startedText(answer) {
  if (answer.duplicate) return t("events.sent.duplicate");
  const waiting = answer.runs.filter((run) => run.outcome === "waiting").length;
  const parts = [
    t("events.sent", { count: answer.job_ids.length }),
    waiting > 0 && t("events.sent.waiting", { count: waiting }),
    answer.runs.length === 0 && t("events.sent.unmatched"),
  ];
  return parts.filter(Boolean).join(" ");
}

/** @param {Like} like @returns {Values} */
const valuesOf = (like) => ({
  event_type: like?.event_type ?? "",
  payload: toJson(like && "payload" in like ? like.payload : {}, 2),
  source: like?.source ?? "",
  subject: like?.subject ?? "",
  dedupe_key: "",
  occurred_at: "",
});

/** @param {Values} values @returns {string} The request, with the payload as it was typed. */
function requestIn(values) {
  const payload = (values["payload"] ?? "").trim() || "null";
  try {
    parseExact(payload);
  } catch (error) {
    const msg = `${t("events.not_json")}: ${error instanceof Error ? error.message : ""}`;
    throw new Problem(422, { title: msg, errors: [{ loc: ["payload"], msg }] });
  }
  const rest = {
    event_type: (values["event_type"] ?? "").trim(),
    source: values["source"] ?? "",
    subject: values["subject"] ?? "",
    ...(values["dedupe_key"] && { dedupe_key: values["dedupe_key"] }),
    ...(values["occurred_at"] && { occurred_at: instantIn(values["occurred_at"]) }),
  };
  return `{"payload":${payload},${toJson(rest).slice(1)}`;
}

/** @param {{like: Like, onClose: () => void, onDone?: () => unknown}} props `like`: the event that the form contains at first. */
export function SendEvent({ like, onClose, onDone }) {
  useZone();
  const form = useForm(like, valuesOf);
  const types = useKnownTypes();
  const send = async (/** @type {Values} */ values) => {
    // A request with a single event gets this answer, and not the answer for several events.
    const answer = /** @type {EventAnswer} */ (await call("POST", "api/events", { text: requestIn(values) }));
    await onDone?.();
    go("events", { id: answer.event_id });
    return startedText(answer);
  };
  const field = (/** @type {string} */ name, /** @type {Record<string, unknown>} */ more = {}) =>
    html`<${FormField} form=${form} name=${name} label=${t(`events.${name}`)} ...${more} />`;
  return html`<${FormDialog} title=${t("events.send.title")} form=${form} onClose=${onClose} onSave=${send} isNew saveLabel=${t("events.send")}>
    <p class="muted">${t("events.send.text")}</p>
    ${field("event_type", { list: "sent-event-types", placeholder: "order.paid", maxlength: "200", autocapitalize: "none", spellcheck: false })}
    <datalist id="sent-event-types">${types.map((type) => html`<option key=${type} value=${type} />`)}</datalist>
    ${field("payload", { as: "textarea", rows: "7", hint: html`<${JsonHint} />`, spellcheck: false })}
    <div class="form-grid">${field("source", { maxlength: "1024", spellcheck: false })}${field("subject", { maxlength: "1024", spellcheck: false })}
      ${field("dedupe_key", { maxlength: "255", hint: t("events.dedupe_key.hint"), spellcheck: false })}
      ${field("occurred_at", { label: inZone(t("events.occurred_at")), type: "datetime-local", step: "1", max: LATEST })}</div><//>`;
}

/** @param {{event: Event, onClose: () => void}} props */
export function ReplayEvent({ event, onClose }) {
  const replay = async () => {
    const answer = await post(`api/events/${encodeURIComponent(event.event_id)}/replay`);
    toast(startedText(answer));
    go("events", { id: answer.event_id });
  };
  return html`<${ConfirmCount}
      title=${t("events.replay.title")} count=${1} counted=${t("events.replay.count")}
      verb=${t("events.replay")} kind="primary" onClose=${onClose} onConfirm=${replay}>
      <p>${t("events.replay.text")}</p>
    <//>`;
}
