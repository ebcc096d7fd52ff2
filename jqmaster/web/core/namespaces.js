/** The namespace that this page shows. Its pages are below `/ns/NAME/`, behind whatever path a proxy adds. */

const place = document.baseURI.replace(/[?#].*$/, "").match(/\/ns\/([^/]+)\/[^/]*$/);

/** The namespace. "" for pages without a prefix: those of the namespace `default` and of the installation. */
export const namespace = place?.[1] ?? "";
/** The namespace whose pages have no prefix. */
export const DEFAULT = "default";

/** @param {string} path @returns {string} An address of the installation, relative to this page. */
export const ofInstallation = (path) => (namespace ? "../../" : "") + path;

/**
 * @param {string} name The name of a namespace.
 * @param {string} [hash] The hash of a page, such as `#/jobs`.
 * @returns {string} The address of the namespace's web UI, relative to this page.
 */
export const addressOf = (name, hash = "") =>
  `${ofInstallation(name === DEFAULT ? "" : `ns/${encodeURIComponent(name)}/`) || "./"}${hash}`;
