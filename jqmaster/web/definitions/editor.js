/** The dialog that creates and changes definitions, with the next instants or newest events while somebody types. */
import { Problem, call, get, parseExact, toJson } from "../core/api.js";
import { ComingTable, useComing } from "./coming.js";
import { DAYS, WAYS, asNumber, dayText, ownZone, scheduleIn, valuesOfSchedule, zones } from "./schedules.js";
import { triggerIn, valuesOfTrigger } from "../events/trigger.js";
import { EventArgument, EventsTable, Gathering, WhichEvents, triggerLabel } from "../events/trigger_form.js";
import { t } from "../core/i18n.js";
import { labelsIn, labelsText } from "../workers/labels.js";
import { html, useEffect } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { FormDialog } from "../ui/form_dialog.js";
import { FormCheck, FormField, JsonHint, fieldErrors, useForm } from "../ui/forms.js";
import { LATEST, editedInstant, inZone, inputOf, useZone } from "../ui/instants.js";

/** @typedef {import("../../answers").Schemas["DefinitionView"]} Definition */

/** @typedef {import("../ui/forms.js").Values} Values */
/** @typedef {import("../ui/forms.js").FormInputs} Form */

// The API's rule for names, which are part of addresses.
const NAME = /^[A-Za-z0-9_.:-]{1,100}$/;
const COMING = 10;
const LAST_DAYS = 31;
const WORKING_DAYS = 5;
const KINDS = ["time", "event"];
const OVERLAPS = ["allow", "forbid", "replace", "queue"];
const CATCH_UPS = ["skip", "latest", "all"];
const DAY_RULES = ["none", "skip_holidays", "only_holidays", "next_workday", "previous_workday"];
const RETRY = /** @type {const} */ (["base_s", "factor", "max_s"]);
const INSTANTS = ["starts_at", "ends_at"];
/** The parts of a job with labels that other pages define. */
const JOB_LABELS = [
  "argument",
  "priority",
  "max_retry",
  "tags",
  "headers",
  "requires",
  "expires_s",
  "keep_result",
  "rerun_lost",
];

/** @param {Definition["job"]} job @returns {boolean} Whether the user has to type the argument again, because the page does not show it. */
const isLeftOut = (job) => job.argument_hidden || (job.argument === null && job.argument_bytes > 1);

/** @param {Definition | null} one null: a new definition. @returns {Values} */
function valuesOf(one) {
  const job = one?.job;
  const retry = job?.retry ?? { base_s: 1, factor: 2, max_s: 3600, jitter: true };
  return {
    name: one?.name ?? "",
    kind: one?.kind ?? "time",
    description: one?.description ?? "",
    job_name: job?.name ?? "",
    argument: !job ? "null" : isLeftOut(job) ? "" : toJson(job.argument, 2),
    ...valuesOfSchedule(one?.schedule ?? null),
    ...valuesOfTrigger(one),
    time_zone: one?.time_zone ?? ownZone(),
    overlap: one?.overlap ?? "allow",
    catch_up: one?.catch_up ?? "latest",
    max_catch_up: String(one?.max_catch_up ?? 100),
    skip_late_after_s: String(one?.skip_late_after_s ?? 300),
    jitter_s: String(one?.jitter_s ?? 0),
    days_rule: one?.days?.rule ?? "none",
    days_calendar: one?.days?.calendar ?? "",
    starts_at: inputOf(one?.starts_at),
    ends_at: inputOf(one?.ends_at),
    enabled: one?.enabled === false ? "" : "yes",
    priority: String(job?.priority ?? 0),
    max_retry: String(job?.max_retry ?? 5),
    timeout: String(job?.timeout ?? 30),
    ...Object.fromEntries(RETRY.map((part) => [`retry_${part}`, String(retry[part])])),
    retry_jitter: retry.jitter ? "yes" : "",
    tags: (job?.tags ?? []).join(", "),
    headers: Object.entries(job?.headers ?? {})
      .map(([key, value]) => `${key}: ${value}`)
      .join("\n"),
    requires: labelsText(job?.requires),
    expires_s: String(job?.expires_s ?? ""),
    keep_result: job?.keep_result ? "yes" : "",
    rerun_lost: job?.rerun_lost ? "yes" : "",
  };
}

/** @param {string} name The name of a part of the form. @returns {string} */
function labelOf(name) {
  if (INSTANTS.includes(name)) return inZone(t(`definitions.form.${name}`));
  if (name === "name") return t("job.name");
  if (name === "timeout") return t("job.timeout_s");
  if (DAYS.includes(name)) return dayText(name, "long");
  return triggerLabel(name) || jobLabel(name);
}

/** @param {string} name */
const jobLabel = (name) => (JOB_LABELS.includes(name) ? t(`job.${name}`) : t(`definitions.form.${name}`));

/**
 * @param {Values} values
 * @param {Definition | null} base The definition that the form was opened with.
 * @returns {object} The fields that say when the definition is due.
 */
const timesIn = (values, base) => ({
  schedule: scheduleIn(values),
  time_zone: (values["time_zone"] ?? "").trim(),
  starts_at: editedInstant(values["starts_at"] ?? "", base?.starts_at) || null,
  ends_at: editedInstant(values["ends_at"] ?? "", base?.ends_at) || null,
  jitter_s: asNumber(values["jitter_s"]) ?? 0,
  ...(values["days_rule"] !== "none" && {
    days: { calendar: values["days_calendar"] ?? "", rule: values["days_rule"] },
  }),
});

/**
 * @param {Values} values
 * @param {Definition | null} base
 * @returns {string} The request. It contains the argument as it was typed, so that no number changes.
 */
function requestIn(values, base) {
  const argument = argumentIn(values);
  /** @type {Record<string, string>} */
  const headers = {};
  for (const line of (values["headers"] ?? "").split("\n").filter((one) => one.trim())) {
    const at = line.indexOf(":");
    if (at < 1) throw refusal("headers", t("enqueue.bad_header"));
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  const tags = (values["tags"] ?? "").split(",").map((tag) => tag.trim());
  const job = {
    priority: asNumber(values["priority"]),
    max_retry: asNumber(values["max_retry"]),
    timeout: asNumber(values["timeout"]),
    retry: {
      ...Object.fromEntries(RETRY.map((part) => [part, asNumber(values[`retry_${part}`])])),
      jitter: values["retry_jitter"] === "yes",
    },
    tags: tags.filter(Boolean),
    headers,
    ...(values["requires"] && { requires: labelsIn(values["requires"]) }),
    ...(values["expires_s"] && { expires_s: asNumber(values["expires_s"]) }),
    keep_result: values["keep_result"] === "yes",
    rerun_lost: values["rerun_lost"] === "yes",
  };
  const rest = {
    description: values["description"] ?? "",
    enabled: values["enabled"] === "yes",
    overlap: values["overlap"],
  };
  const start = isOfEvents(values)
    ? triggerIn(values)
    : toJson({ ...timesIn(values, base), ...latenessIn(values) }).slice(1, -1);
  const jobName = JSON.stringify((values["job_name"] ?? "").trim());
  return `{"job":{"name":${jobName},"argument":${argument},${toJson(job).slice(1)},${start},${toJson(rest).slice(1)}`;
}

/** @param {Values} values */
const isOfEvents = (values) => values["kind"] === "event";

/** @param {Values} values @returns {object} The fields that say what happens to instants that a master handles late. */
const latenessIn = (values) => ({
  catch_up: values["catch_up"],
  max_catch_up: asNumber(values["max_catch_up"]),
  skip_late_after_s: asNumber(values["skip_late_after_s"]),
});

/** @param {Values} values @returns {string} The argument of the job as it was typed; null if events make the argument. */
function argumentIn(values) {
  if (isOfEvents(values) && values["argument_way"] !== "fixed") return "null";
  const argument = (values["argument"] ?? "").trim();
  if (!argument) throw refusal("argument", t("enqueue.argument.left_out"));
  let value;
  try {
    value = parseExact(argument);
  } catch (error) {
    throw refusal("argument", `${t("enqueue.not_json")}: ${error instanceof Error ? error.message : ""}`);
  }
  // Refuse null, for which the master would use the payload as the argument.
  if (isOfEvents(values) && value === null) throw refusal("argument", t("definitions.argument.null"));
  return argument;
}

/**
 * @param {Values} values
 * @param {Definition | null} base
 * @returns {string} The request for the preview; "" while the form is not complete.
 */
function previewIn(values, base) {
  const name = values["name"]?.trim() ?? "";
  const also = toJson({ count: COMING, ...(NAME.test(name) && { name }) }).slice(1);
  if (!isOfEvents(values)) return `{${toJson(timesIn(values, base)).slice(1, -1)},${also}`;
  if (!values["event_type"]?.trim()) return "";
  try {
    const job =
      values["argument_way"] === "fixed" ? `"job":{"name":"job","argument":${argumentIn(values)}},` : "";
    return `{${job}${triggerIn(values)},${also}`;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return "";
  }
}

/** @param {string} field @param {string} msg */
const refusal = (field, msg) => new Problem(422, { title: msg, errors: [{ loc: ["job", field], msg }] });

/** @param {{definition: Definition | null, onClose: () => void, onDone: (name: string) => unknown}} props `definition` null: a new definition. */
export function DefinitionEditor({ definition, onClose, onDone }) {
  useZone();
  const form = useForm(definition, valuesOf);
  const { values } = form;
  const isEvents = isOfEvents(values);
  const asked = previewIn(values, form.base);
  const coming = useComing(asked);
  const shown = form.problem ?? coming.problem;
  const save = async (/** @type {Values} */ given, /** @type {Definition | null} */ base) => {
    const name = given["name"]?.trim() ?? "";
    if (!NAME.test(name)) {
      const msg = t(name ? "constraints.name.rule" : "constraints.name.none");
      throw new Problem(422, { title: msg, errors: [{ loc: ["name"], msg }] });
    }
    const text = requestIn(given, base).replace(/}$/, `,"reason":${JSON.stringify(base?.reason ?? "")}}`);
    await call("PUT", `api/definitions/${encodeURIComponent(name)}`, {
      text,
      headers: base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" },
    });
    await onDone(name);
    return t(base ? "constraints.done.changed" : "constraints.done.created", { name: visible(name) });
  };
  const reread = () => get(`api/definitions/${encodeURIComponent(definition?.name ?? "")}`);
  return html`<${FormDialog}
      title=${definition ? `${t("definitions.edit")} · ${visible(definition.name)}` : t("definitions.make")}
      form=${form} onClose=${onClose} onSave=${save} labelOf=${labelOf}
      reread=${definition ? reread : undefined} isNew=${definition === null}
      saveLabel=${definition ? t("save") : t("definitions.create")} isWide>
      <div class="form-grid">
        ${
          !definition &&
          html`<${FormField}
              form=${form} name="name" problem=${shown} label=${labelOf("name")}
              hint=${t("constraints.name.rule")} maxlength="100" autocapitalize="none" spellcheck=${false} />
            <${FormField} form=${form} name="kind" as="select" label=${labelOf("kind")}>
              ${KINDS.map(
                (kind) =>
                  html`<option key=${kind} value=${kind}>${t(`definitions.kind_of.${kind}`)}</option>`,
              )}
            <//>`
        }
        <${FormField} form=${form} name="description" label=${labelOf("description")} maxlength="1000" />
      </div>
      <div class="form-grid">
        <fieldset class="plain-fields">
          <legend>${t(isEvents ? "events.which" : "definitions.when")}</legend>
          <div class="stack">
            ${
              isEvents
                ? html`<${WhichEvents} form=${form} problem=${shown} />`
                : html`<${When} form=${form} problem=${shown} />`
            }
          </div>
        </fieldset>
        <${Preview} values=${values} coming=${coming} isAsked=${asked !== ""} />
      </div>
      <fieldset class="plain-fields">
        <legend>${t("nav.job")}</legend>
        <${JobFields}
          form=${form} problem=${shown} isLeftOut=${definition !== null && isLeftOut(definition.job)} />
      </fieldset>
      <fieldset class="plain-fields">
        <legend>${t("definitions.rules")}</legend><${Rules} form=${form} problem=${shown} />
      </fieldset>
      <${FormCheck} form=${form} name="enabled">${labelOf("enabled")}<//>
    <//>`;
}

/**
 * The preview, while somebody types.
 * @param {{values: Values, coming: import("./coming.js").Coming, isAsked: boolean}} props
 */
function Preview({ values, coming, isAsked }) {
  if (isOfEvents(values)) {
    const label = t("events.preview");
    return html`<section class="preview" aria-live="polite"><h3>${label}</h3><${EventsTable} coming=${coming} isAsked=${isAsked} label=${label} /></section>`;
  }
  const zone = (values["time_zone"] ?? "").trim();
  const label = t("definitions.next", { count: COMING });
  return html`<section class="preview" aria-live="polite">
      <h3>${label}</h3>
      <${ComingTable}
        coming=${coming} zone=${zone} jitterMs=${Number(values["jitter_s"]) * 1000 || 0} label=${label} />
    </section>`;
}

/** @param {{form: Form, problem: Problem | null}} props */
function When({ form, problem }) {
  const way = form.values["way"];
  return html`<${FormField} form=${form} name="way" as="select" label=${labelOf("way")}>
      ${WAYS.map((one) => html`<option key=${one} value=${one}>${t(`definitions.way.${one}`)}</option>`)}
    <//>
    <${WayFields} form=${form} problem=${problem} />
    <${FormField}
      form=${form} name="time_zone" problem=${problem} label=${labelOf("time_zone")}
      hint=${way === "every" ? t("definitions.every.hint") : undefined} list="zones" maxlength="64"
      autocapitalize="none" spellcheck=${false} />
    <${DaysOff} form=${form} problem=${problem} />
    <datalist id="zones">${zones().map((zone) => html`<option key=${zone} value=${zone} />`)}</datalist>`;
}

/** @param {{form: Form, problem: Problem | null}} props The fields of the chosen kind of trigger. */
function WayFields({ form, problem }) {
  const field = (
    /** @type {string} */ name,
    /** @type {string} */ path,
    /** @type {Record<string, unknown>} */ more = {},
  ) =>
    html`<${FormField} key=${name} form=${form} name=${name} path=${`schedule.${path}`} problem=${problem} label=${labelOf(name)} ...${more} />`;
  const clock = (/** @type {string} */ path) => field("time", path, { type: "time", required: true });
  switch (form.values["way"]) {
    case "every":
      return html`<div class="form-grid">
          ${field("every", "every_minutes", { type: "number", min: "1", step: "1" })}
          <${FormField} form=${form} name="every_unit" as="select" label=${labelOf("every_unit")}>
            <option value="minutes">${t("definitions.minutes")}</option>
            <option value="hours">${t("definitions.hours")}</option>
          <//>
          ${field("offset", "offset", {
            type: "number",
            min: "0",
            step: "1",
            hint: t("definitions.offset.hint"),
          })}
        </div>`;
    case "hourly":
      return field("minute", "hourly_at", { type: "number", min: "0", max: "59", step: "1" });
    case "daily":
      return clock("daily_at");
    case "weekly":
      return html`<${Weekdays} form=${form} problem=${problem} />${clock("at")}`;
    case "monthly":
      return html`<div class="form-grid">
          <${DayOfMonth} form=${form} problem=${problem} />${clock("cron")}
        </div>`;
    case "cron":
      return field("cron", "cron", {
        maxlength: "200",
        placeholder: "*/15 8-18 * * MON-FRI",
        autocapitalize: "none",
        spellcheck: false,
        hint: t("definitions.cron.hint"),
      });
    default:
      return null;
  }
}

/** @param {{form: Form, problem: Problem | null}} props */
function Weekdays({ form, problem }) {
  const errors = fieldErrors(problem, "schedule.weekly_on");
  return html`<fieldset class="plain-set">
      <legend>${t("definitions.days")}</legend>
      <div class="row">
        ${DAYS.map(
          (day) => html`<${FormCheck} key=${day} form=${form} name=${day}><span>${dayText(day)}</span><//>`,
        )} <${Button}
          class="small"
          onClick=${() =>
            form.set(Object.fromEntries(DAYS.map((day, at) => [day, at < WORKING_DAYS ? "yes" : ""])))}>
          ${dayText("mon")}–${dayText("fri")}
        <//>
      </div>
      ${errors.length > 0 && html`<p class="field-error">${visible(errors.join("; "))}</p>`}
    </fieldset>`;
}

/** @param {{form: Form, problem: Problem | null}} props */
function DayOfMonth({ form, problem }) {
  return html`<${FormField}
      form=${form} name="day_of_month" as="select" problem=${problem} path="schedule.cron"
      label=${labelOf("day_of_month")}
      hint=${Number(form.values["day_of_month"]) > 28 ? t("definitions.short_months") : undefined}>
      ${Array.from(
        { length: LAST_DAYS },
        (_, at) => html`<option key=${at} value=${String(at + 1)}>${String(at + 1)}</option>`,
      )}
      <option value="L">${t("definitions.last_day")}</option>
    <//>`;
}

/** @param {{form: Form, problem: Problem | null}} props The rule for days off, and the calendar that names them. */
function DaysOff({ form, problem }) {
  const { data } = useResource((signal) => get("api/calendars", {}, signal), []);
  const isOn = form.values["days_rule"] !== "none";
  const stored = form.values["days_calendar"] ?? "";
  const names = /** @type {string[]} */ ((data?.calendars ?? []).map((one) => one.name));
  const all = stored && !names.includes(stored) ? [stored, ...names] : names;
  const first = all[0] ?? "";
  // A rule needs a calendar, so choose the first one if none is chosen.
  useEffect(() => {
    if (isOn && !stored && first) form.set({ days_calendar: first });
  }, [isOn, stored, first]);
  return html`<div class="form-grid">
      <${FormField}
        form=${form} name="days_rule" as="select" path="days.rule" problem=${problem}
        label=${labelOf("days_rule")} hint=${isOn ? t("definitions.days_rule.hint") : undefined}>
        ${DAY_RULES.map(
          (one) => html`<option key=${one} value=${one}>${t(`definitions.days_rule.${one}`)}</option>`,
        )}
      <//>
      ${
        isOn &&
        html`<${FormField}
            form=${form} name="days_calendar" as="select" path="days.calendar" problem=${problem}
            disabled=${all.length === 0} label=${labelOf("days_calendar")}
            hint=${data && all.length === 0 ? t("definitions.days.no_calendar") : undefined}>
            ${all.map((one) => html`<option key=${one} value=${one}>${visible(one)}</option>`)}
          <//>`
      }
    </div>`;
}

/** @param {{form: Form, problem: Problem | null, isLeftOut: boolean}} props */
function JobFields({ form, problem, isLeftOut: isArgumentLeftOut }) {
  const names = useKnownNames();
  const field = (/** @type {string} */ name, /** @type {Record<string, unknown>} */ more = {}) =>
    html`<${FormField} form=${form} name=${name} path=${`job.${name}`} label=${labelOf(name)} ...${more} />`;
  const argument = field("argument", {
    as: "textarea",
    rows: "4",
    hint: html`<${JsonHint} />`,
    spellcheck: false,
  });
  return html`<div class="stack">
      <${FormField}
        form=${form} name="job_name" path="job.name" label=${labelOf("job_name")}
        hint=${t("enqueue.name.hint")} list="known-job-names" maxlength="200" autocapitalize="none"
        spellcheck=${false} />
      <datalist id="known-job-names">
        ${names.map((name) => html`<option key=${name} value=${name} />`)}
      </datalist>
      ${isArgumentLeftOut && html`<p class="warning" role="note">${t("definitions.argument.hidden")}</p>`}
      ${
        isOfEvents(form.values)
          ? html`<${EventArgument} form=${form} problem=${problem}>${argument}<//>`
          : argument
      }
      <div class="form-grid">
        ${field("timeout", { type: "number", min: "0.001", step: "any" })}
        ${field("max_retry", { type: "number", min: "0", max: "1000", step: "1" })}
        ${field("priority", { type: "number", step: "1", hint: t("job.priority.hint") })}
        ${field("tags", { hint: t("enqueue.tags.hint"), spellcheck: false })}
        ${field("requires", { hint: t("job.requires.hint"), spellcheck: false })}
        ${field("expires_s", { type: "number", min: "0.001", step: "any", hint: t("job.expires_s.hint") })}
        ${RETRY.map(
          (part) =>
            html`<${FormField}
                key=${part} form=${form} name=${`retry_${part}`} path=${`job.retry.${part}`}
                label=${labelOf(`retry_${part}`)} type="number" min="0" step="any" />`,
        )}
      </div>
      ${field("headers", {
        as: "textarea",
        class: "short",
        rows: "2",
        hint: t("enqueue.headers.hint"),
        spellcheck: false,
      })}
      <div class="row">
        ${["retry_jitter", "keep_result", "rerun_lost"].map(
          (name) =>
            html`<${FormCheck} key=${name} form=${form} name=${name}><span>${labelOf(name)}</span><//>`,
        )}
      </div>
    </div>`;
}

/** @param {{form: Form, problem: Problem | null}} props */
function Rules({ form, problem }) {
  const choice = (/** @type {string} */ name, /** @type {string[]} */ all) =>
    html`<${FormField}
        form=${form} name=${name} as="select" label=${labelOf(name)}
        hint=${t(`definitions.${name}.${form.values[name]}.text`)}>
        ${all.map((one) => html`<option key=${one} value=${one}>${t(`definitions.${name}.${one}`)}</option>`)}
      <//>`;
  const field = (/** @type {string} */ name, /** @type {Record<string, unknown>} */ more) =>
    html`<${FormField} form=${form} name=${name} problem=${problem} label=${labelOf(name)} ...${more} />`;
  if (isOfEvents(form.values)) {
    const overlaps = OVERLAPS.filter((one) => one !== "queue" || form.values["overlap"] === one);
    return html`<div class="form-grid">${choice("overlap", overlaps)}<${Gathering} form=${form} problem=${problem} /></div>`;
  }
  return html`<div class="form-grid">${choice("overlap", OVERLAPS)}
    ${field("skip_late_after_s", { type: "number", min: "1", step: "any", hint: t("definitions.skip_late.hint") })}
    ${choice("catch_up", CATCH_UPS)}
    ${field("max_catch_up", { type: "number", min: "1", max: "1000", step: "1" })}
    ${field("jitter_s", { type: "number", min: "0", step: "any", hint: t("definitions.jitter.hint") })}
    ${INSTANTS.map((name) => field(name, { type: "datetime-local", step: "1", max: LATEST }))}</div>`;
}

/** @returns {string[]} The job names that live workers serve. */
function useKnownNames() {
  const { data } = useResource((signal) => get("api/workers", {}, signal), [], { everyMs: 15_000 });
  const able = (data?.workers ?? []).filter((worker) => worker.state === "fresh");
  return [...new Set(able.flatMap((worker) => worker.names))].sort().slice(0, 500);
}
