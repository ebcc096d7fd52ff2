/** The dialog that changes a waiting job. */
import { html } from "../core/lib.js";
import { Problem, get, patch } from "../core/api.js";
import { t } from "../core/i18n.js";
import { FormDialog } from "../ui/form_dialog.js";
import { FormField, useForm } from "../ui/forms.js";
import { LATEST, inZone, inputOf, instantIn, useZone } from "../ui/instants.js";

/** @typedef {import("../../answers").Schemas["JobView"]} JobView */
/** @typedef {`api/jobs/${string}`} JobPath */

/** The fields of the API that a person may change. */
const CHANGEABLE = ["priority", "run_at", "max_retry", "timeout"];

/** @param {string} name */
const changeLabel = (name) =>
  name === "run_at" ? inZone(t("job.due")) : t(name === "timeout" ? "job.timeout_s" : `job.${name}`);

/** @param {JobView} job */
const changeable = (job) => ({
  priority: String(job.priority),
  run_at: inputOf(job.run_at),
  max_retry: String(job.max_retry),
  timeout: String(job.timeout),
});

/** @param {{job: JobView, path: JobPath, onClose: () => void, onDone: () => Promise<void>}} props */
export function Change({ job, path, onClose, onDone }) {
  useZone();
  const form = useForm(job, changeable);
  const save = async (/** @type {import("../ui/forms.js").Values} */ values, /** @type {JobView} */ base) => {
    const opened = /** @type {import("../ui/forms.js").Values} */ (changeable(base));
    const changed = CHANGEABLE.filter((name) => values[name] !== opened[name]);
    // Read the job again to find changes by others, because a job has no version.
    const present = /** @type {import("../ui/forms.js").Values} */ (changeable(await get(path)));
    if (changed.some((name) => present[name] !== opened[name] && present[name] !== values[name]))
      throw new Problem(412, { title: t("form.conflict") });
    const sent = changed.map((name) => [
      name,
      name === "run_at" ? instantIn(values[name] ?? "") : Number(values[name]),
    ]);
    await patch(path, Object.fromEntries(sent));
    await onDone();
    return t("form.saved", {
      what: changed
        .map((name) => `${changeLabel(name)} ${opened[name]} → ${(values[name] ?? "").replace("T", " ")}`)
        .join(", "),
    });
  };
  return html`<${FormDialog}
      title=${t("job.change.title")} form=${form} onClose=${onClose} onSave=${save} reread=${() => get(path)}
      labelOf=${changeLabel}>
      <div class="form-grid">
        <${FormField}
          form=${form} name="priority" label=${changeLabel("priority")} hint=${t("job.priority.hint")}
          type="number" step="1" required />
        <${FormField}
          form=${form} name="run_at" label=${changeLabel("run_at")} type="datetime-local" step="1"
          max=${LATEST} />
        <${FormField}
          form=${form} name="max_retry" label=${changeLabel("max_retry")} type="number" min="0" max="1000"
          step="1" required />
        <${FormField}
          form=${form} name="timeout" label=${changeLabel("timeout")} type="number" min="0.001" step="any"
          required />
      </div>
    <//>`;
}
