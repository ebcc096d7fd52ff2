/** The progress of jobs, as their workers last reported it. */
import { t } from "../core/i18n.js";
import { html, useEffect, useRef } from "../core/lib.js";
import { visible } from "../core/text.js";

/** How often progress is polled while it is shown, because no event of the stream reports it. */
const ASK_MS = 2000;

/** @param {{progress: {fraction: number | null, message: string | null}}} props A bar with its share, then the message. */
export function Progress({ progress }) {
  const { fraction, message } = progress;
  const text = message ? visible(message) : "";
  const share = fraction === null ? null : `${Math.floor(fraction * 100)} %`;
  return html`<span class="progress">
      ${
        share !== null &&
        html`<progress max="1" value=${fraction} aria-label=${t("job.progress")}>${share}</progress> <span class="num">${share}</span> `
      }
      ${text && html`<bdi class="muted" title=${text}>${text}</bdi>`}
    </span>`;
}

/**
 * @param {{state: string}[]} jobs The jobs whose progress is shown.
 * @param {boolean} isHeld
 * @param {() => unknown} reload Loads the jobs again. Called while any of them runs.
 */
export function useProgress(jobs, isHeld, reload) {
  const isMoving = !isHeld && jobs.some((job) => job.state === "running");
  const newest = useRef(reload);
  newest.current = reload;
  useEffect(() => {
    if (!isMoving) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) newest.current();
    }, ASK_MS);
    return () => clearInterval(timer);
  }, [isMoving]);
}
