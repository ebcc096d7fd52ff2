/**
 * The form of a notice. Each address is on a line of its own. An address with a hidden credential keeps the credential
 * if its line is not changed.
 */
import { Problem, get, parseExact, put, toJson } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { DEFAULT, namespace } from "../core/namespaces.js";
import { OF_INSTALLATION, WHENS } from "./conditions.js";
import { pathOfNotice } from "./dialogs.js";
import { MatcherField, useSuggestions } from "../matching/rule_builder.js";
import { visible } from "../core/text.js";
import { FormDialog } from "../ui/form_dialog.js";
import { FormField, useForm } from "../ui/forms.js";

/** @typedef {import("../../answers").Schemas["NoticeView"]} Notice */

/** @typedef {import("../ui/forms.js").Values} Values */

const GROUPS = ["none", "name", "failure_group"];
const MATCHINGS = ["all", "some"];
const FIELDS = ["name", "tags", "priority"];
const BLANK_MATCHER = '{"field": "name", "op": "eq", "value": ""}';

/** @param {Notice | null} notice @param {"mail" | "slack" | "webhook"} channel @returns {string[]} */
const linesOf = (notice, channel) => (notice?.to ?? []).flatMap((to) => to[channel] ?? []);

/** @param {Notice | null} notice @returns {Values} */
const valuesOf = (notice) => ({
  name: notice?.name ?? "",
  when: notice?.when ?? "job_failed",
  threshold: String(notice?.threshold ?? ""),
  mail: linesOf(notice, "mail").join("\n"),
  slack: linesOf(notice, "slack").join("\n"),
  webhook: linesOf(notice, "webhook").join("\n"),
  secret: "",
  matching: notice?.matcher ? "some" : "all",
  matcher: notice?.matcher ? toJson(notice.matcher, 2) : BLANK_MATCHER,
  group_by: notice?.group_by ?? "none",
  at_most_every_s: String(notice?.at_most_every_s ?? 300),
  description: notice?.description ?? "",
});

/** @param {string | undefined} text @returns {string[]} */
const split = (text) => (text ?? "").split(/\s+/).filter(Boolean);

/** @param {Values} values @returns {unknown} The matcher; null: the notice is about all jobs. */
function matcherIn(values) {
  if (values["matching"] !== "some") return null;
  try {
    return parseExact(values["matcher"] ?? "");
  } catch {
    const msg = t("notices.matcher.bad");
    throw new Problem(422, { title: msg, errors: [{ loc: ["matcher"], msg }] });
  }
}

/** @param {Values} values @param {Notice | null} base */
function documentOf(values, base) {
  const mail = split(values["mail"]);
  return {
    when: values["when"],
    threshold: values["threshold"] ? Number(values["threshold"]) : null,
    matcher: matcherIn(values),
    to: [
      ...(mail.length > 0 ? [{ mail }] : []),
      ...split(values["slack"]).map((slack) => ({ slack })),
      ...split(values["webhook"]).map((webhook) => ({
        webhook,
        ...(values["secret"] && { secret: values["secret"] }),
      })),
    ],
    group_by: values["group_by"],
    at_most_every_s: Number(values["at_most_every_s"]),
    muted_until: base?.muted_until ?? null,
    description: values["description"],
  };
}

/** @param {import("../matching/rule_builder.js").Add} add @param {AbortSignal} signal */
async function readNames(add, signal) {
  const { names } = await get("api/names", { limit: 50 }, signal);
  for (const { name } of names) add("name", name);
}

/** The conditions of the namespace that this page shows. */
const OFFERED =
  namespace && namespace !== DEFAULT ? WHENS.filter((one) => !OF_INSTALLATION.includes(one)) : WHENS;

/** @param {{notice: Notice | null, onClose: () => void, onDone: (name: string) => unknown}} props `notice` null: a new notice. */
export function NoticeEditor({ notice, onClose, onDone }) {
  const form = useForm(notice, valuesOf);
  const save = async (/** @type {Values} */ values, /** @type {Notice | null} */ base) => {
    const name = notice ? notice.name : (values["name"] ?? "");
    await put(pathOfNotice(name), documentOf(values, base), {
      ...(base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" }),
    });
    await onDone(name);
    return t("notices.saved", { name: visible(name) });
  };
  const suggestions = useSuggestions(FIELDS, readNames, []);
  const label = (/** @type {string} */ name) => t(`notices.form.${name}`);
  return html`<${FormDialog}
      isWide title=${t(notice ? "notices.edit.title" : "notices.make")} form=${form} onClose=${onClose}
      onSave=${save} isNew=${!notice} reread=${() => get(pathOfNotice(notice?.name ?? ""))} labelOf=${label}>
      ${
        !notice &&
        html`<${FormField} form=${form} name="name" label=${label("name")} required maxlength="50" />`
      }
      <div class="form-grid">
        <${FormField} form=${form} name="when" label=${label("when")} as="select">
          ${OFFERED.map((one) => html`<option key=${one} value=${one}>${t(`notices.when.${one}`)}</option>`)}
        <//>
        <${FormField} form=${form} name="matching" label=${label("matching")} as="select">
          ${MATCHINGS.map(
            (one) => html`<option key=${one} value=${one}>${t(`notices.matching.${one}`)}</option>`,
          )}
        <//>
        <${FormField}
          form=${form} name="threshold" label=${label("threshold")} hint=${t("notices.threshold.hint")}
          type="number" min="1" step="1" />
        <${FormField} form=${form} name="group_by" label=${label("group_by")} as="select">
          ${GROUPS.map(
            (one) => html`<option key=${one} value=${one}>${t(`notices.group_by.${one}`)}</option>`,
          )}
        <//>
        <${FormField}
          form=${form} name="at_most_every_s" label=${label("at_most_every_s")} type="number" min="10"
          step="1" required />
      </div>
      ${
        form.values["matching"] === "some" &&
        html`<${MatcherField} form=${form} label=${label("matcher")} suggestions=${suggestions} hint=${t("notices.rule.hint")} />`
      }
      <${FormField}
        form=${form} name="mail" label=${label("mail")} hint=${t("notices.mail.hint")} as="textarea" rows="2"
        path="to" />
      <${FormField}
        form=${form} name="slack" label=${label("slack")} hint=${t("notices.url.hint")} as="textarea" rows="2" />
      <div class="form-grid">
        <${FormField}
          form=${form} name="webhook" label=${label("webhook")} hint=${t("notices.url.hint")} as="textarea"
          rows="2" />
        <${FormField}
          form=${form} name="secret" label=${label("secret")} hint=${t("notices.secret.hint")}
          spellcheck="false" />
      </div>
      <${FormField} form=${form} name="description" label=${label("description")} maxlength="500" />
    <//>`;
}
