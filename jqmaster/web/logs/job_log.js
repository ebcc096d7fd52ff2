/** The log of a job. People can follow it while the job runs, filter it by level, search it, and save it as a file. */
import { Problem, del, get } from "../core/api.js";
import { ansiPieces, withoutAnsi } from "./ansi.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { pieces } from "../core/text.js";
import { Button, ErrorBox } from "../ui/controls.js";
import { Sure, toast } from "../ui/dialogs.js";
import { usePref } from "../core/prefs.js";
import { Num, instantParts, localText, utcText } from "../ui/formats.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

export const LEVELS = /** @type {const} */ (["debug", "info", "warning", "error", "critical"]);
// Maximum number of lines to show. More lines would make the page slow. The saved file has all lines.
const MAX_SHOWN = 2_000;
const PAGE = 1_000;
const WAIT_S = 25;
const AGAIN_MS = 2_000;

/** @typedef {{seq: number, attempt: number, at: string, level: string, text: string | null}} Entry */
/**
 * @typedef {{entries: Entry[], dropped: number, isLast: boolean, isCut: boolean, isArchived: boolean, missing:
 *   Problem | null}} Log `missing`: why the page has no lines from the archive.
 */
/** @typedef {typeof LEVELS[number]} Level */
/** @typedef {{level: Level, wanted: string, isFollowing: boolean}} View Which lines are shown, and whether the page scrolls to the last one. */

/** @type {Log} */
const NOTHING = { entries: [], dropped: 0, isLast: false, isCut: false, isArchived: false, missing: null };

/**
 * @param {{path: `api/jobs/${string}`, isGone?: boolean, mayErase?: boolean}} props `path`: the path of the job in the
 *   API. `isGone`: the job was deleted, and only the archive may have lines. `mayErase`: the job is over or gone, and
 *   the user may erase its log.
 */
export function JobLog({ path, isGone = false, mayErase = false }) {
  const [view, setView] = useState(/** @type {View} */ ({ level: "debug", wanted: "", isFollowing: true }));
  const change = (/** @type {Partial<View>} */ part) =>
    setView((/** @type {View} */ old) => ({ ...old, ...part }));
  const { level, wanted, isFollowing } = view;
  const [isSaving, setIsSaving] = useState(false);
  const [isErasing, setIsErasing] = useState(false);
  const [mode] = usePref("times", "relative");
  const { log, problem, retry } = useLog(path, level);
  const end = useRef(/** @type {HTMLElement | null} */ (null));
  const text = wanted.toLowerCase();
  const shown = text
    ? log.entries.filter((entry) =>
        withoutAnsi(entry.text ?? "")
          .toLowerCase()
          .includes(text),
      )
    : log.entries;
  useLayoutEffect(() => {
    if (isFollowing && end.current) end.current.scrollTop = end.current.scrollHeight;
  }, [shown.length, log.entries.at(-1)?.seq, isFollowing]);
  const save = async () => {
    setIsSaving(true);
    try {
      await download(path, level);
    } finally {
      setIsSaving(false);
    }
  };
  if (isGone && log.entries.length === 0 && (!problem || problem.status === 404)) return null;
  return html`<section class="card job-log" aria-labelledby="job-log">
      <div class="row log-head">
        <h2 id="job-log">${t("job.log")}</h2>
        <${View} view=${view} change=${change} />
        <${Button} onClick=${save} disabled=${isSaving || log.entries.length === 0}>
          ${t("job.log.download")}
        <//>
        ${
          mayErase &&
          html`<${Button} opensDialog kind="danger" onClick=${() => setIsErasing(true)}>${t("job.log.erase")}<//>`
        }
      </div>
      <${ErrorBox} problem=${problem} onRetry=${retry} />
      ${log.isArchived && html`<p class="muted">${t("job.log.archived")}</p>`}
      ${log.dropped > 0 && html`<p class="muted">${t("job.log.dropped", { count: log.dropped })}</p>`}
      ${log.isCut && html`<p class="muted">${t("job.log.cut", { count: MAX_SHOWN })}</p>`}
      ${
        log.entries.length === 0
          ? !problem && html`<p class="muted">${t(log.isLast ? "job.log.none" : "job.log.none_yet")}</p>`
          : html`<div class="log-lines" role="log" aria-label=${t("job.log")} tabindex="0" ref=${end}>${
              shown.length === 0
                ? html`<p class="muted">${t("job.log.not_found")}</p>`
                : shown.map(
                    (entry, at) =>
                      html`<${Line} key=${entry.seq} entry=${entry} before=${shown[at - 1]} isWhole=${!text && level === "debug"} mode=${mode} />`,
                  )
            }</div>`
      }
      ${
        isErasing &&
        html`<${Sure} title=${t("job.log.erase.title")} verb=${t("job.log.erase")} onClose=${() => setIsErasing(false)} onConfirm=${async () => {
          await del(`${path}/logs`);
          toast(t("job.log.erased"));
          retry();
        }}><p>${t("job.log.erase.text")}</p><//>`
      }
    </section>`;
}

/** @param {{view: View, change: (part: Partial<View>) => void}} props */
function View({ view: { level, wanted, isFollowing }, change }) {
  return html`<label>
      ${t("job.log.level")} <select
        value=${level}
        onChange=${(/** @type {FieldEvent} */ event) =>
          change({ level: LEVELS.find((one) => one === event.currentTarget.value) ?? level })}>
        ${LEVELS.map((one) => html`<option value=${one}>${t(`job.log.level.${one}`)}</option>`)}
      </select>
    </label>
    <label>
      ${t("job.log.search")} <input
        type="search" value=${wanted}
        onInput=${(/** @type {FieldEvent} */ event) => change({ wanted: event.currentTarget.value })} />
    </label>
    <label class="check">
      <input
        type="checkbox" checked=${isFollowing}
        onChange=${(/** @type {FieldEvent} */ event) => change({ isFollowing: event.currentTarget.checked })} /> ${t(
          "job.log.follow",
        )}
    </label>`;
}

/**
 * @param {{entry: Entry, before: Entry | undefined, isWhole: boolean, mode: string}} props `before`: the line above.
 *   `isWhole`: no line is filtered out, so a missing line was lost.
 */
function Line({ entry, before, isWhole, mode }) {
  const lost = isWhole && before ? entry.seq - before.seq - 1 : 0;
  const ms = Date.parse(entry.at);
  const { day, clock, zone } = instantParts(ms, mode);
  const above = before && instantParts(Date.parse(before.at), mode);
  // Show the day and the zone in the first line, and in the first line of each other day.
  const isNewDay = above?.day !== day || above.zone !== zone;
  return html`${isNewDay && html`<div class="log-gap muted">${day} · ${zone}</div>`}
    ${lost > 0 && html`<div class="log-gap muted">${t("job.log.gap", { count: lost })}</div>`}
    ${
      isWhole &&
      before &&
      before.attempt !== entry.attempt &&
      html`<div class="log-gap muted">${t("job.log.attempt")} <${Num} value=${entry.attempt} /></div>`
    }
    <div class=${`log-line log-${entry.level}`}>
      <time datetime=${entry.at} title=${`${localText(ms)} · ${utcText(ms)}`}>
        ${clock}.${String(ms % 1000).padStart(3, "0")}
      </time> <span class="log-level">${t(`job.log.level.${entry.level}`)}</span> <span class="log-text">
        ${
          entry.text === null
            ? html`<span class="muted">${t("job.log.hidden")}</span>`
            : ansiPieces(entry.text).map(
                (piece) => html`<span class=${piece.class}>${pieces(piece.text, true)}</span>`,
              )
        }
      </span>
    </div>`;
}

/**
 * Follow the lines of a job with this level or a higher one. While the page is hidden, load nothing.
 * @param {`api/jobs/${string}`} path
 * @param {Level} level
 */
function useLog(path, level) {
  const [log, setLog] = useState(NOTHING);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setLog(NOTHING);
    follow(
      path,
      level,
      abort.signal,
      (found) => {
        setProblem(found.missing);
        setLog(found);
      },
      setProblem,
    );
    return () => abort.abort();
  }, [path, level, tries]);
  return { log, problem, retry: () => setTries((count) => count + 1) };
}

/**
 * @param {`api/jobs/${string}`} path
 * @param {Level} level
 * @param {AbortSignal} signal
 * @param {(log: Log) => void} onLog
 * @param {(problem: Problem) => void} onProblem
 */
async function follow(path, level, signal, onLog, onProblem) {
  let log = NOTHING;
  let after = 0;
  let isFirst = true;
  while (!signal.aborted && !log.isLast) {
    try {
      const page = await get(
        `${path}/logs`,
        {
          after,
          level,
          limit: PAGE,
          ...(isFirst ? { tail: MAX_SHOWN } : { wait: WAIT_S }),
        },
        signal,
      );
      isFirst = false;
      after = page.next;
      const entries = page.entries.length ? [...log.entries, ...page.entries] : log.entries;
      log = {
        entries: entries.slice(-MAX_SHOWN),
        dropped: page.dropped,
        isLast: page.is_last,
        isArchived: log.isArchived || page.is_archived,
        missing: log.missing,
        isCut: log.isCut || entries.length > MAX_SHOWN || (entries[0]?.seq ?? 1) > page.dropped + 1,
      };
      onLog(log);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      onProblem(error);
      if (error.storedAfter !== undefined && error.storedAfter > after) {
        // The archive cannot be reached. Show the lines that the store still has.
        after = error.storedAfter;
        isFirst = false;
        log = { ...log, missing: error };
        continue;
      }
      if (error.status !== 0 && error.status < 500) return;
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }
}

/**
 * Let the browser save all lines with this level or a higher one as a text file.
 * @param {`api/jobs/${string}`} path
 * @param {Level} level
 */
async function download(path, level) {
  /** @type {string[]} */
  const lines = [];
  let after = 0;
  for (;;) {
    const page = await get(`${path}/logs`, {
      after,
      level,
      limit: 5_000,
    });
    for (const { at, attempt, level: of, text } of page.entries)
      lines.push(`${at} ${attempt} ${of} ${text ?? ""}\n`);
    if (page.next === after) break;
    after = page.next;
  }
  const url = URL.createObjectURL(new Blob(lines, { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `job-${path.split("/").at(-1)}.log`;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
