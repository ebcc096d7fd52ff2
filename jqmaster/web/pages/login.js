import { html } from "../lib.js";
import { t } from "../i18n.js";

/** @param {{query: Record<string, string>, session: any}} props */
export function Page({ query }) {
  return html`<h1>${t("nav.login")}</h1><p>${query["id"] ?? ""}</p>`;
}
