/** The dialogs about one group of failures: ignore, assign and resolve it, and see the affected values. */
import { del, get, post } from "../core/api.js";
import { number, t } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Button, ErrorBox, Loading } from "../ui/controls.js";
import { Dialog, attempt } from "../ui/dialogs.js";
import { DurationField, endOf, unreadable } from "../ui/durations.js";
import { FilterInput } from "../ui/filters.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Num, Text, nowMs } from "../ui/formats.js";
import { FormField, useForm } from "../ui/forms.js";

/** @typedef {import("../../answers").Schemas["FailureGroup"]} FailureGroup */
/** @typedef {import("../../answers").Schemas["AffectedValues"]} AffectedValues */
/** @typedef {import("../core/api.js").Problem} Problem */
/** @typedef {import("../ui/forms.js").Values} Values */

// The number of failure groups that the master keeps.
const MAX_OTHERS = 500;
// The length at which the master cuts off values.
const CUT_AT = 200;

/** @typedef {"ignore" | "assign" | "resolve" | "merge" | "values"} Question */
/** @typedef {{question: Question, group: FailureGroup}} Asked */
/** @typedef {{group: FailureGroup, who: string, onClose: () => void, onDone: () => unknown}} Props `who`: the reader. */

/** @param {FailureGroup} group @param {"ignore" | "assign" | "resolve" | "merge"} call */
export const pathOf = (group, call) =>
  /** @type {const} */ (`api/failures/${encodeURIComponent(group.id)}/${call}`);

/** @param {Props & {question: Question}} props */
export function FailureDialog({ question, ...props }) {
  const dialogs = { ignore: Ignore, assign: Assign, resolve: Resolve, merge: Merge, values: Affected };
  return html`<${dialogs[question]} ...${props} />`;
}

/** @param {{group: FailureGroup}} props */
const What = ({ group }) =>
  html`<p>
      <strong><${Text} value=${group.name} max=${100} /></strong>
      ${
        !group.message_hidden &&
        html` <span class="muted"><${Text} value=${group.message} max=${120} /></span>`
      }
    </p>`;

/** @param {Props} props */
function Ignore({ group, onClose, onDone }) {
  const form = useForm(null, () => ({ ignored: "", reason: "" }));
  const save = async (/** @type {Values} */ { reason = "", ignored = "" }) => {
    const end = endOf(ignored);
    if (ignored.trim() && end === null) throw unreadable("duration_s");
    const length = end !== null && { duration_s: Math.ceil((end - nowMs()) / 1000) };
    await post(pathOf(group, "ignore"), { reason, ...length });
    await onDone();
    const undo = () => attempt(() => del(pathOf(group, "ignore")), t("failures.unignored")).then(onDone);
    return { text: t("failures.ignoring"), undo };
  };
  return html`<${FormDialog}
      title=${t("failures.ignore.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("failures.ignore")}>
      <${What} group=${group} /><p class="muted">${t("failures.ignore.text")}</p>
      <${DurationField}
        form=${form} name="ignored" path="duration_s" label=${t("failures.ignore.for")}
        empty=${`${t("failures.until.changes")}. ${t("failures.changes")}`} />
      <${FormField} form=${form} name="reason" label=${t("pause.reason")} maxlength="500" />
    <//>`;
}

/** @param {Props} props */
function Assign({ group, who, onClose, onDone }) {
  const form = useForm(null, () => ({ assignee: group.assigned?.assignee ?? who }));
  const save = async (/** @type {Values} */ { assignee = "" }) => {
    await (assignee ? post(pathOf(group, "assign"), { assignee }) : del(pathOf(group, "assign")));
    await onDone();
    return assignee ? t("failures.assigned", { assignee: visible(assignee) }) : t("failures.unassigned");
  };
  return html`<${FormDialog} title=${t("failures.assign.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("failures.assign")}>
    <${What} group=${group} />
    <${FormField} form=${form} name="assignee" label=${t("failures.assignee")} hint=${t("failures.assignee.hint")} maxlength="100" spellcheck=${false} /><//>`;
}

/** @param {Props} props */
function Resolve({ group, onClose, onDone }) {
  const form = useForm(null, () => ({ version: "" }));
  const save = async (/** @type {Values} */ { version = "" }) => {
    await post(pathOf(group, "resolve"), { version });
    await onDone();
    const undo = () => attempt(() => del(pathOf(group, "resolve")), t("failures.reopened")).then(onDone);
    return { text: t("failures.resolving"), undo };
  };
  return html`<${FormDialog}
      title=${t("failures.resolve.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("failures.resolve")}>
      <${What} group=${group} /><p class="muted">${t("failures.resolve.text")}</p>
      <${FormField}
        form=${form} name="version" label=${t("failures.resolve.version")} hint=${t("failures.resolve.hint")}
        maxlength="64" spellcheck=${false} placeholder=${t("failures.resolve.next")} />
    <//>`;
}

/** @param {Props} props */
function Merge({ group, onClose, onDone }) {
  const form = useForm(null, () => ({ into: "" }));
  const [others, setOthers] = useState(/** @type {FailureGroup[] | null} */ (null));
  useEffect(() => {
    const aborter = new AbortController();
    get("api/failures", { name: group.name, limit: MAX_OTHERS }, aborter.signal).then(
      (answer) => setOthers(answer.groups.filter((one) => one.id !== group.id)),
      (error) => {
        if (!aborter.signal.aborted) form.setProblem(error);
      },
    );
    return () => aborter.abort();
  }, [group.id]);
  const save = async (/** @type {Values} */ { into = "" }) => {
    await post(pathOf(group, "merge"), { into });
    await onDone();
    const undo = () => attempt(() => del(pathOf(group, "merge")), t("failures.split.done")).then(onDone);
    return { text: t("failures.merge.done"), undo };
  };
  if (others?.length === 0)
    return html`<${Dialog} title=${t("failures.merge.title")} onClose=${onClose}>
        <${What} group=${group} /><p>${t("failures.merge.none")}</p>
        <footer><${Button} onClick=${onClose}>${t("close")}<//></footer>
      <//>`;
  return html`<${FormDialog}
      title=${t("failures.merge.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("failures.merge")}>
      <${What} group=${group} /><p class="muted">${t("failures.merge.text")}</p>
      <${FormField} form=${form} name="into" path="into" as="select" label=${t("failures.merge.into")}>
        <option value="">${t("failures.merge.choose")}</option>
        ${(others ?? []).map(
          (one) =>
            html`<option key=${one.id} value=${one.id}>${visible(`${one.count} × ${one.message || one.error_type || one.id}`).slice(0, 120)}</option>`,
        )}
      <//>
    <//>`;
}

/** @param {Props} props */
function Affected({ group, onClose }) {
  const [path, setPath] = usePref("failures.path", "argument");
  const [found, setFound] = useState(/** @type {AffectedValues | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  useEffect(() => {
    const aborter = new AbortController();
    const url = /** @type {const} */ (`api/failures/${encodeURIComponent(group.id)}/values`);
    get(url, { path }, aborter.signal).then(
      (answer) => {
        setFound(answer);
        setProblem(null);
      },
      (error) => {
        if (aborter.signal.aborted) return;
        // Remove the values at the previous path. Otherwise they would look like values at this path.
        setFound(null);
        setProblem(error);
      },
    );
    return () => aborter.abort();
  }, [group.id, path]);
  return html`<${Dialog} title=${t("failures.values.title")} onClose=${onClose}>
      <${What} group=${group} />
      <${FilterInput}
        type="text" label=${t("failures.values.path")} hint=${t("failures.values.hint")} value=${path}
        list="failure-paths" onChange=${(/** @type {string} */ text) => text && setPath(text)} />
      <datalist id="failure-paths">
        ${(found?.paths ?? []).map((one) => html`<option key=${one} value=${one} />`)}
      </datalist>
      <${ErrorBox} problem=${problem} />
      ${
        found
          ? html`<${Values} found=${found} path=${path} group=${group} />`
          : html`<${Loading} isLoading=${!problem} />`
      }
      <footer><${Button} onClick=${onClose}>${t("close")}<//></footer>
    <//>`;
}

/** @param {{found: AffectedValues, path: string, group: FailureGroup}} props */
function Values({ found, path, group }) {
  const most = Math.max(1, ...found.values.map((one) => one.count));
  const share = (/** @type {number} */ count) =>
    number(count / Math.max(1, found.examined), { style: "percent", maximumFractionDigits: 0 });
  const notes = [
    t("failures.values.examined", { count: found.examined }),
    found.without > 0 && t("failures.values.without", { without: number(found.without) }),
    !found.is_complete && t("failures.values.more"),
  ].filter(Boolean);
  if (found.values.length === 0)
    return html`<p class="muted">${t("failures.values.none")}</p><p class="muted small">${notes.join(" · ")}</p>`;
  return html`<p>
      <strong>${t("failures.values.distinct", { count: found.distinct })}</strong> <span class="muted small">
        ${notes.join(" · ")}
      </span>
    </p>
    <table class="affected">
      <thead>
        <tr>
          <th scope="col">${t("failures.values.value")}</th>
          <th scope="col" class="num">${t("failures.values.jobs")}</th>
          <th scope="col" class="num">${t("failures.values.share")}</th>
        </tr>
      </thead>
      <tbody>
        ${found.values.map(
          (one) =>
            html`<tr key=${one.value}>
                <th scope="row"><${ValueLink} value=${one.value} path=${path} group=${group} /></th>
                <td class="num">
                  <i
                    class="affected-bar" style=${{ width: `${(60 * one.count) / most}%` }} aria-hidden="true"></i>
                  <${Num} value=${one.count} />
                </td>
                <td class="num">${share(one.count)}</td>
              </tr>`,
        )}
      </tbody>
    </table>`;
}

/**
 * A link to the jobs of the group that have the value. Shown if a filter can contain the value.
 *
 * @param {{value: string, path: string, group: FailureGroup}} props
 */
function ValueLink({ value, path, group }) {
  const text = html`<code><${Text} value=${value} max=${220} /></code>`;
  const isCut = value.length === CUT_AT;
  if (isCut || /^[[{]/.test(value)) return text;
  return html`<a href=${href("jobs", { state: "failed", failure_group: group.id, field: path, op: "eq", value })}>${text}</a>`;
}
