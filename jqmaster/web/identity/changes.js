/** The newest changes of a constraint or a definition, as the audit log has them. */
import { get } from "../core/api.js";
import { t, tOr } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { ChangedValue, Difference } from "./differences.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { ErrorBox } from "../ui/controls.js";
import { Time } from "../ui/formats.js";
import { whoText } from "./value_words.js";

const CHANGES_SHOWN = 3;

/** @param {{name: string, etag: string}} props The newest changes of the object. */
export function Changes({ name, etag }) {
  const { data, problem } = useResource(
    (signal) => get("api/audit", { target: name, limit: CHANGES_SHOWN }, signal),
    [name, etag],
  );
  const entries = data?.entries ?? [];
  return html`<section class="card after" aria-labelledby="changes">
      <h2 id="changes">${t("constraints.history")}</h2><${ErrorBox} problem=${problem} />
      <ol class="audit">
        ${entries.map(
          (entry) =>
            html`<li key=${entry.id} class="entry">
                <p class="row">
                  <strong>${tOr(`act.${entry.action}`, visible(entry.action))}</strong> <${Time}
                    at=${entry.at} isPast /> <span class="muted">
                    ${t("audit.by")} <span title=${visible(entry.who)}>${visible(whoText(entry.who))}</span>
                  </span>
                </p>
                <${ChangedValue} entry=${entry} />
                <${Difference} before=${entry.before} after=${entry.after} />
              </li>`,
        )}
      </ol>
      <p><a href=${href("audit", { target: name })}>${t("constraints.history.all")}</a></p>
    </section>`;
}
