/** The page of an object that is unknown, or not loaded yet. */
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { href } from "../core/router.js";
import { Empty, ErrorBox, Loading } from "./controls.js";

/**
 * @param {{page: import("../core/router.js").PageName, title: string, found: {problem: import("../core/api.js").Problem | null,
 *   reload: () => unknown}, children?: import("../core/lib.js").Node}} props
 *   `page`: the page with the list of such objects. `title`: the text that the object is unknown. `children`: the
 *   explanation.
 */
export function Absent({ page, title, found, children }) {
  const list = t(`nav.${page}`);
  if (found.problem?.status === 404)
    return html`<h1>${list}</h1>
      <div class="card">
        <${Empty} title=${title}>${children}<p><a href=${href(page)}>${list}</a></p><//>
      </div>`;
  return html`<h1>${list}</h1><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />${!found.problem && html`<${Loading} />`}`;
}
