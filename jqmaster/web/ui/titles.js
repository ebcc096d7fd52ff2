/** The title of the browser tab, by which people tell pages apart. */
import { useEffect } from "../core/lib.js";
import { namespace } from "../core/namespaces.js";
import { visible } from "../core/text.js";

let ofPage = "";

/** @param {string} title The title of the tab, unless an object on the page sets a more exact one. */
export function usePageTitle(title) {
  useEffect(() => {
    ofPage = title;
    show(title);
  }, [title]);
}

/** @param {string | null} title null while it is not known. */
export function useTitle(title) {
  useEffect(() => {
    if (title === null) return undefined;
    show(title);
    // When the opened object is closed, show the title of the list again.
    return () => show(ofPage);
  }, [title]);
}

/** @param {string} title */
function show(title) {
  document.title = [visible(title).slice(0, 120), namespace, "jqmaster"].filter(Boolean).join(" · ");
}
