/** The part of the definition editor that selects the events that start the job, and maps them to its argument. */
import { get, toJson } from "../core/api.js";
import { ArgumentMapping, rowsOf } from "./argument_mapping.js";
import { ARGUMENT_WAYS, FIGURES, GATHERINGS } from "./trigger.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { href } from "../core/router.js";
import { MatcherField, useSuggestions } from "../matching/rule_builder.js";
import { visible } from "../core/text.js";
import { Button, Empty } from "../ui/controls.js";
import { Badge, Num, Time } from "../ui/formats.js";
import { FormField, fieldErrors } from "../ui/forms.js";
import { Table } from "../ui/tables.js";

/** @typedef {import("../../answers").Schemas["PreviewedEvent"]} PreviewedEvent */

/** @typedef {import("../ui/forms.js").FormInputs} Form */
/** @typedef {import("../core/api.js").Problem} Problem */

const FIELDS = ["payload", "event_type", "source", "subject"];
// Fields of an event that an argument can use in addition to the fields above.
const ALSO = ["event_id", "occurred_at"];
const READ = 10;
const TYPING_MS = 400;

/** @param {string} name The name of a part of the form. @returns {string} The label; "" if another form has this part. */
export function triggerLabel(name) {
  const own = ["event_type", "matching", "matcher", "argument_way", "mapping", "gathering", "gathering_key"];
  return [...own, ...FIGURES.debounce, ...FIGURES.collect].includes(name) ? t(`events.form.${name}`) : "";
}

/**
 * @param {string} type May be a pattern.
 * @returns {import("../matching/rule_builder.js").Suggestions} Paths and values of the newest events of a type.
 */
function useEventSuggestions(type) {
  const [settled, setSettled] = useState(type);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(type), TYPING_MS);
    return () => clearTimeout(timer);
  }, [type]);
  return useSuggestions(
    FIELDS,
    async (add, signal) => {
      const { events } = await get("api/events", { type: settled, limit: READ }, signal);
      for (const event of events) {
        for (const field of /** @type {const} */ (["event_type", "source", "subject"]))
          if (event[field]) add(field, event[field]);
        if (!event.payload_hidden) add("payload", event.payload);
      }
    },
    [settled],
  );
}

/** @returns {string[]} The types of the newest events. */
export function useKnownTypes() {
  const [types, setTypes] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    const aborter = new AbortController();
    get("api/events", { limit: 100 }, aborter.signal).then(
      ({ events }) => setTypes([...new Set(events.map((event) => event.event_type))].sort()),
      () => {},
    );
    return () => aborter.abort();
  }, []);
  return types;
}

/** @param {{form: Form, name: string, options: string[], problem: Problem | null} & Record<string, unknown>} props */
function Choice({ form, name, options, problem, ...more }) {
  return html`<${FormField}
      form=${form} name=${name} as="select" problem=${problem} label=${triggerLabel(name)} ...${more}>
      ${options.map((one) => html`<option key=${one} value=${one}>${t(`events.${name}.${one}`)}</option>`)}
    <//>`;
}

/** @param {{isJson: boolean, onJson: (isJson: boolean) => void, label: string}} props */
function Ways({ isJson, onJson, label }) {
  return html`<div class="row" role="group" aria-label=${label}>
      <${Button} class="small" aria-pressed=${String(!isJson)} onClick=${() => onJson(false)}>
        ${t("rule.builder")}
      <//> <${Button} class="small" aria-pressed=${String(isJson)} onClick=${() => onJson(true)}>JSON<//>
    </div>`;
}

/** @param {{problem: Problem | null, path: string}} props The errors of a part that consists of several controls. */
function PartErrors({ problem, path }) {
  const errors = fieldErrors(problem, path);
  return errors.length > 0 ? html`<p class="field-error">${visible(errors.join("; "))}</p>` : null;
}

/** @param {{form: Form, problem: Problem | null}} props The fields that select events. */
export function WhichEvents({ form, problem }) {
  const { values } = form;
  const types = useKnownTypes();
  const suggestions = useEventSuggestions(values["event_type"]?.trim() ?? "");
  return html`<${FormField}
      form=${form} name="event_type" problem=${problem} label=${triggerLabel("event_type")}
      hint=${t("events.form.event_type.hint")} list="known-event-types" placeholder="order.*" maxlength="200"
      autocapitalize="none" spellcheck=${false} />
    <datalist id="known-event-types">
      ${types.map((type) => html`<option key=${type} value=${type} />`)}
    </datalist>
    <${Choice} form=${form} name="matching" options=${["all", "some"]} problem=${problem} path="matching" />
    ${
      values["matching"] === "some" &&
      html`<${MatcherField} form=${form} suggestions=${suggestions} label=${triggerLabel("matcher")} hint=${t("events.rule.hint")} problem=${problem} />`
    }`;
}

/**
 * The fields for the source of the argument.
 * @param {{form: Form, problem: Problem | null, children?: import("../core/lib.js").Node}} props
 *   `children`: the control for a fixed argument.
 */
export function EventArgument({ form, problem, children }) {
  const { values } = form;
  const [isJson, setJson] = useState(() => rowsOf(values["mapping"] ?? "") === null);
  const { fields } = useEventSuggestions(values["event_type"]?.trim() ?? "");
  const way = values["argument_way"];
  return html`<${Choice}
      form=${form} name="argument_way" options=${ARGUMENT_WAYS} problem=${problem} path="argument_way" />
    ${
      way === "parts" &&
      html`<${Ways} isJson=${isJson} onJson=${setJson} label=${triggerLabel("mapping")} />
        ${
          isJson
            ? html`<${FormField}
                form=${form} name="mapping" path="argument" as="textarea" rows="5" spellcheck=${false}
                label=${triggerLabel("mapping")} hint=${t("events.form.mapping.hint")} problem=${problem} />`
            : html`<${ArgumentMapping}
                paths=${[...fields, ...ALSO]} text=${values["mapping"] ?? ""}
                onText=${(/** @type {string} */ text) => form.set({ mapping: text })} />
              <${PartErrors} problem=${problem} path="argument" />`
        }`
    }${way === "fixed" && children}`;
}

/** @param {{form: Form, problem: Problem | null}} props The choice between one job for each event and one job for many events. */
export function Gathering({ form, problem }) {
  const way = /** @type {keyof typeof FIGURES} */ (form.values["gathering"] ?? "none");
  return html`<${Choice}
      form=${form} name="gathering" options=${GATHERINGS} problem=${problem} path="gathering"
      hint=${t(`events.gathering.${way}.text`)} />
    ${FIGURES[way].map(
      (name) =>
        html`<${FormField}
            key=${name} form=${form} name=${name} path=${`${way}.${name}`} problem=${problem}
            label=${triggerLabel(name)} type="number" min=${name === "max" ? "1" : "0.1"}
            step=${name === "max" ? "1" : "any"} />`,
    )}
    ${
      way !== "none" &&
      html`<${FormField}
          form=${form} name="gathering_key" path=${`${way}.key`} problem=${problem}
          label=${triggerLabel("gathering_key")} hint=${t("events.form.gathering_key.hint")}
          placeholder="payload.customer" maxlength="200" autocapitalize="none" spellcheck=${false} />`
    }`;
}

/** @param {{coming: import("../definitions/coming.js").Coming, isAsked: boolean, label: string}} props The effect of the definition on the newest events. */
export function EventsTable({ coming, isAsked, label }) {
  const { events, problem, isOld } = coming;
  if (!isAsked) return html`<p class="muted">${t("events.preview.wait")}</p>`;
  if (problem)
    return html`<p class="muted">${problem.status === 422 ? t("events.preview.invalid") : visible(problem.title)}</p>`;
  if (events === null) return html`<p class="muted">${t("loading")}</p>`;
  if (events.length === 0) return html`<${Empty} title=${t("events.preview.none")} />`;
  return html`<div class="coming" aria-busy=${String(isOld)}>
      <${Table}
        isFixed caption=${label} rows=${events} rowKey=${(/** @type {PreviewedEvent} */ one) => one.event_id}
        columns=${PREVIEWED.map((column) => ({ ...column, label: t(column.label) }))} />
    </div>`;
}

/** @type {(import("../ui/tables.js").Column<PreviewedEvent> & {label: string})[]} */
const PREVIEWED = [
  {
    key: "received",
    label: "events.received",
    width: 7,
    render: (one) =>
      html`<a href=${href("events", { id: one.event_id })} title=${visible(one.event_type)}><${Time} at=${one.received_at} /></a>`,
  },
  {
    key: "matches",
    label: "events.preview.matches",
    width: 6.5,
    render: (one) => html`<${Matches} matches=${one.matches} />`,
  },
  {
    key: "argument",
    label: "job.argument",
    render: (one) => html`<${Excerpt} value=${one.argument} isHidden=${one.argument_hidden} />`,
  },
];

/** @param {{matches: boolean | null}} props */
function Matches({ matches }) {
  if (matches === null) return html`<span class="muted">${t("events.preview.unknown")}</span>`;
  return html`<${Badge} kind=${matches ? "ok" : "off"}>${t(matches ? "yes" : "no")}<//>`;
}

const MAX_SHOWN = 300;

/** @param {{value: unknown, isHidden: boolean}} props One line of a value. */
export function Excerpt({ value, isHidden }) {
  if (isHidden) return html`<span class="muted">${t("job.hidden")}</span>`;
  if (value === null || value === undefined) return html`<${Num} value=${null} />`;
  const text = visible(toJson(value).slice(0, MAX_SHOWN));
  return html`<bdi class="line code-line" title=${text}>${text}</bdi>`;
}
