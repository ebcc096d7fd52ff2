/** The argument and the result of a job. */
import { html } from "../core/lib.js";
import { t } from "../core/i18n.js";
import { visible } from "../core/text.js";
import { Bytes, bytesText } from "../ui/formats.js";
import { Value } from "../ui/values.js";
import { isSealed, isTooLarge } from "./job_spec.js";

/** @param {{state: string, finished_at: string | null}} job A job without a result. @returns {string} Why the job has no result. */
export function noResultText({ state, finished_at }) {
  if (finished_at === null) return t("job.result.none");
  if (state === "succeeded") return t("job.result.gone");
  return t(state === "failed" ? "job.result.failed" : "job.result.unsuccessful");
}

/**
 * @param {{title: string, value: unknown, isHidden: boolean, missing?: string, isRedacted?: boolean, bytes?: number}}
 *   props `missing`: why there is no value; empty: there is one.
 */
export function Carried({ title, value, isHidden, missing = "", isRedacted = false, bytes }) {
  return html`<section class="card">
      <h2>
        ${title} ${bytes !== undefined && html`<span class="muted small"><${Bytes} value=${bytes} /></span>`}
      </h2>
      ${
        missing
          ? html`<p class="muted">${missing}</p>`
          : isHidden
            ? html`<p class="muted">${t("job.hidden")}</p>`
            : isTooLarge(value, bytes ?? 0)
              ? html`<p class="muted">${t("job.too_large", { size: bytesText(bytes ?? 0) })}</p>`
              : html`${isRedacted && html`<p class="muted">${t("job.redacted")}</p>`}<${MaybeSealed} value=${value} label=${title} />`
      }
    </section>`;
}

/** @param {{value: unknown, label: string}} props A value, or the readable part of a sealed value. */
function MaybeSealed({ value, label }) {
  if (!isSealed(value)) return html`<${Value} value=${value} label=${label} />`;
  const { sealed_with: key, sealed: _, ...readable } = value;
  return html`<p class="muted">${t("job.sealed", { key: visible(key) })}</p>
    ${Object.keys(readable).length > 0 && html`<${Value} value=${readable} label=${label} />`}`;
}
