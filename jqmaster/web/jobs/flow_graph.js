/** A flow as a graph of its jobs, with a line from each job to the jobs that wait for it. The arrow keys move between jobs. */
import { NODE, pictureOf, sizeOf } from "./flow_layout.js";
import { number, t, tOr } from "../core/i18n.js";
import { html, useLayoutEffect, useMemo, useRef, useState } from "../core/lib.js";
import { href } from "../core/router.js";
import { STATES, isIn } from "../core/states.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { durationText } from "../ui/formats.js";
import { brokenIn, titleOf, useKeptNodes } from "./flow_parts.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("./flow_layout.js").Place} Place */
/** @typedef {import("./flow_layout.js").Line} Line */
/** @typedef {ReturnType<typeof pictureOf>} Picture */
/** @typedef {import("./flow_parts.js").Drawn} Drawn */
/** @typedef {import("./flow_parts.js").FlowJob} FlowJob */

const ZOOMS = [0.15, 0.25, 0.4, 0.6, 0.8, 1];
/** The part of the box's width that its content cannot use. */
const BOX_MARGIN = 4;

/**
 * @param {FlowJob[]} jobs
 * @param {Set<string>} alone Returns the facts that determine the shape of the picture. These do not include the
 *   states, which change all the time.
 */
const shapeOf = (jobs, alone) =>
  JSON.stringify(jobs.map(({ id, name, when, after }) => [id, name, when, after, alone.has(id)]));

/** @param {Drawn} props */
export function FlowGraph({ flow, newest, current, failure, tools }) {
  const [isEach, setEach] = useState(false);
  const [zoom, setZoom] = useState(1);
  const [focused, setFocused] = useState("");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  // The failed jobs, which must not be hidden in a group of similar jobs.
  const failures = useMemo(() => new Set(flow.failures), [flow]);
  const shape = useMemo(() => shapeOf(flow.jobs, failures), [flow.jobs, failures]);
  const picture = useMemo(
    () => pictureOf(flow.jobs, { current, isEach, failures }),
    [shape, current, isEach],
  );
  const broken = useMemo(() => brokenIn(flow, newest), [flow, newest]);
  const critical = useMemo(() => new Set(flow.critical_path), [flow]);
  const byKey = useMemo(() => new Map(picture.places.map((place) => [place.key, place])), [picture]);
  const nodes = picture.places.filter((place) => place.kind !== "junction");
  const first = nodes.find((place) => place.key === (current || failure))?.key ?? nodes[0]?.key ?? "";
  // The one node that the Tab key reaches. From this node, the arrow keys lead to the others.
  const entry = byKey.has(focused) ? focused : first;
  const hasAlike = isEach || nodes.some((place) => place.kind === "group");
  useLayoutEffect(() => {
    const place = byKey.get(current || failure);
    if (box.current && place) {
      box.current.scrollLeft = place.x * zoom - (box.current.clientWidth - NODE.width) / 2;
      box.current.scrollTop = place.y * zoom - (box.current.clientHeight - NODE.height) / 2;
    }
  }, [current, isEach]);
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const place = byKey.get(entry);
    const next = place && nextOf(event.key, place, nodes, byKey);
    if (!next) return;
    event.preventDefault();
    const target = box.current?.querySelector(`[data-key="${CSS.escape(next)}"]`);
    if (target instanceof HTMLElement) target.focus();
  };
  const drawn = { picture, byKey, newest, broken, critical, current, failure, entry, zoom };
  return html`<div class="row flow-tools">
      ${tools}
      ${
        hasAlike &&
        html`<${Button} class="small" aria-pressed=${String(isEach)} onClick=${() => setEach(!isEach)}>${t("flow.each")}<//>`
      }
      <${ZoomButtons} zoom=${zoom} setZoom=${setZoom} box=${box} picture=${picture} />
    </div>
    <p class="sr" id="flow-keys">${t("flow.keys")}</p>
    <div
      class="flow-box" ref=${box} role="group" aria-label=${t("flow")} aria-describedby="flow-keys"
      onKeyDown=${press}
      onFocusIn=${(/** @type {FieldEvent} */ e) => setFocused(e.target.dataset["key"] ?? focused)}>
      <${Canvas} ...${drawn} near=${entry === focused ? focused : ""} onOpen=${() => setEach(true)} />
    </div>
    <p class="muted small flow-legend">
      ${hasPath(critical) && html`<span class="legend-critical"></span> ${t("flow.critical")}`}
      ${
        broken.size > 0 &&
        html`${hasPath(critical) && " · "}<span class="legend-broken"></span> ${t("flow.broken")}`
      }
    </p>`;
}

/** @param {Set<string>} critical @returns {boolean} Whether to show the critical path. A path with one job is not shown. */
const hasPath = (critical) => critical.size > 1;

/** @param {{zoom: number, setZoom: (zoom: number) => void, box: {current: HTMLElement | null}, picture: Picture}} props */
function ZoomButtons({ zoom, setZoom, box, picture }) {
  const fit = () => {
    if (!box.current) return;
    const room = Math.min(
      (box.current.clientWidth - BOX_MARGIN) / picture.width,
      (box.current.clientHeight - BOX_MARGIN) / picture.height,
    );
    setZoom(Math.max(ZOOMS[0] ?? 0, Math.min(1, room)));
  };
  const step = (/** @type {1 | -1} */ way) =>
    setZoom(
      way > 0
        ? (ZOOMS.find((one) => one > zoom) ?? 1)
        : ([...ZOOMS].reverse().find((one) => one < zoom) ?? ZOOMS[0] ?? 1),
    );
  return html`<span class="row" role="group" aria-label=${t("flow.zoom")}>
      <${Button}
        class="small" aria-label=${t("flow.zoom.out")} disabled=${zoom <= (ZOOMS[0] ?? 0)}
        onClick=${() => step(-1)}>
        −
      <//>
      <${Button} class="small" aria-label=${t("flow.zoom.in")} disabled=${zoom >= 1} onClick=${() => step(1)}>
        +
      <//>
      <${Button} class="small" onClick=${fit}>${t("flow.zoom.fit")}<//>
    </span>`;
}

/**
 * @param {{picture: Picture, byKey: Map<string, Place>, newest: Map<string, FlowJob>, broken: Set<string>, critical: Set<string>,
 *   current: string, failure: string, entry: string, near: string, zoom: number, onOpen: () => void}} props
 *   `near`: the key of the place whose lines are highlighted.
 */
function Canvas(props) {
  const { picture, byKey, newest, broken, critical, current, failure, entry, near, zoom, onOpen } = props;
  const keptNode = useKeptNodes();
  const keptLine = useKeptNodes();
  const line = (/** @type {Line} */ one) => {
    const kind = lineClass(one, byKey, newest, broken, critical, near);
    return keptLine(one.key, [one, kind], () => html`<path key=${one.key} d=${one.path} class=${kind} />`);
  };
  const node = (/** @type {Place} */ place) => {
    const isCurrent = place.key === current;
    const isEntry = place.key === entry;
    const marks = [
      place.jobs.some((job) => broken.has(job.id)) ? "is-broken" : "",
      hasPath(critical) && place.jobs.some((job) => critical.has(job.id)) ? "is-critical" : "",
      place.key === failure ? "is-failure" : "",
    ].join(" ");
    return keptNode(
      place.key,
      [place, newest, isCurrent, isEntry, marks],
      () =>
        html`<${Node}
            key=${place.key} place=${place} newest=${newest} marks=${marks} isCurrent=${isCurrent}
            isEntry=${isEntry} onOpen=${onOpen} />`,
    );
  };
  const junctions = picture.places.filter((place) => place.kind === "junction");
  const size = { width: `${picture.width}px`, height: `${picture.height}px` };
  return html`<div style=${{ width: `${picture.width * zoom}px`, height: `${picture.height * zoom}px` }}>
      <div class="flow-canvas" style=${{ ...size, transform: `scale(${zoom})` }}>
        <svg width=${picture.width} height=${picture.height} aria-hidden="true" focusable="false">
          ${picture.lines.map(line)}
          ${junctions.map((place) => html`<circle key=${place.key} cx=${place.x + 4} cy=${place.y + 4} r="3" />`)}
        </svg>
        ${picture.places.filter((place) => place.kind !== "junction").map(node)}
      </div>
    </div>`;
}

/**
 * @param {string} key The pressed key.
 * @param {Place} place
 * @param {Place[]} nodes
 * @param {Map<string, Place>} byKey
 * @returns {string | undefined} The key of the place that is next in that direction.
 */
function nextOf(key, place, nodes, byKey) {
  const nearest = (/** @type {Place[]} */ some) =>
    some.reduce(
      (best, one) => (!best || Math.abs(one.y - place.y) < Math.abs(best.y - place.y) ? one : best),
      /** @type {Place | undefined} */ (undefined),
    )?.key;
  const all = (/** @type {string[]} */ keys) => keys.flatMap((one) => byKey.get(one) ?? []);
  const column = nodes.filter((one) => one.x === place.x);
  switch (key) {
    case "ArrowRight":
      return nearest(all(place.behind));
    case "ArrowLeft":
      return nearest(all(place.before));
    case "ArrowDown":
      return column.find((one) => one.y > place.y)?.key;
    case "ArrowUp":
      return column.filter((one) => one.y < place.y).at(-1)?.key;
    case "Home":
      return nodes[0]?.key;
    case "End":
      return nodes.at(-1)?.key;
    default:
      return undefined;
  }
}

/**
 * @param {Line} line
 * @param {Map<string, Place>} byKey
 * @param {Map<string, FlowJob>} newest
 * @param {Set<string>} broken
 * @param {Set<string>} critical
 * @param {string} focused
 */
function lineClass(line, byKey, newest, broken, critical, focused) {
  const [from, to] = [byKey.get(line.from), byKey.get(line.to)];
  const isOver = Boolean(
    from?.jobs.length && from.jobs.every((job) => isIn((newest.get(job.id) ?? job).state ?? "", "finished")),
  );
  const isBroken = Boolean(
    from?.jobs.some((job) => broken.has(job.id)) &&
    (to?.kind === "junction" || to?.jobs.some((job) => broken.has(job.id))),
  );
  const isCritical = [from, to].every((place) => place?.jobs.some((job) => critical.has(job.id)));
  const isAnyEnd = to?.jobs.some((job) => job.when === "finished") ?? false;
  const isNear = focused !== "" && (line.from === focused || line.to === focused);
  return `${isBroken ? "broken" : isOver ? "over" : ""} ${isCritical ? "critical" : ""} ${isAnyEnd ? "any-end" : ""} ${isNear ? "near" : ""}`;
}

/** @param {{place: Place, newest: Map<string, FlowJob>, marks: string, isCurrent: boolean, isEntry: boolean, onOpen: () => void}} props */
function Node({ place, newest, marks, isCurrent, isEntry, onOpen }) {
  const jobs = place.jobs.map((job) => newest.get(job.id) ?? job);
  const [job] = /** @type {[FlowJob]} */ (jobs);
  const { width, height } = sizeOf(place);
  const at = { left: `${place.x}px`, top: `${place.y}px`, width: `${width}px`, height: `${height}px` };
  const tab = isEntry ? 0 : -1;
  const name = job.name === null ? t("flow.gone") : visible(job.name);
  const links = t("flow.links", { before: place.before.length, behind: place.behind.length });
  if (place.kind === "group") {
    const counts = countsOf(jobs);
    const told = counts
      .map(([state, count]) => `${number(count)} ${tOr(`state.${state}`, state)}`)
      .join(", ");
    return html`<button
        type="button" class=${`flow-node is-group ${marks}`} data-key=${place.key} style=${at} tabindex=${tab}
        aria-label=${`${name} × ${number(jobs.length)}, ${told}, ${links}`}
        title=${`${name} × ${number(jobs.length)}\n${told}`} onClick=${onOpen}>
        <span class="flow-name">${name} <b>× ${number(jobs.length)}</b></span>
        <span class="strip">
          ${counts.map(
            ([state, count]) =>
              html`<i key=${state} class=${`seg seg-${state}`} style=${{ flexGrow: String(count) }}></i>`,
          )}
        </span>
      </button>`;
  }
  const state = job.state ?? "";
  const lasted =
    job.started_at && job.finished_at
      ? durationText(Date.parse(job.finished_at) - Date.parse(job.started_at))
      : "";
  const more = [
    job.more_before > 0 && t("flow.more_before", { count: job.more_before }),
    job.more_behind > 0 && t("flow.more_behind", { count: job.more_behind }),
  ]
    .filter(Boolean)
    .join(" · ");
  const word = state ? tOr(`state.${state}`, visible(state)) : "";
  const error = job.error ? visible(job.error) : "";
  const details = [word, more || lasted, error, job.id].filter(Boolean).join(" · ");
  const inside = html`<span class="flow-name">${name}</span>
    ${job.label && html`<span class="flow-label">${visible(job.label)}</span>`}
    <span class="flow-more">
      <span class=${`state state-${state}`}>${state && html`<i aria-hidden="true"></i>`}${word}</span>
      <span class="muted">${more || lasted || `…${job.id.slice(-4)}`}</span>
    </span>
    ${
      place.isFailure &&
      html`<span class="flow-error">${error || (job.cause ? tOr(`cause.${job.cause}`, visible(job.cause)) : "")}</span>`
    }`;
  const common = {
    class: `flow-node ${isCurrent ? "is-current" : ""} ${marks} ${state ? `of-${state}` : "is-gone"}`,
    "data-key": place.key,
    style: at,
    tabindex: tab,
    title: `${titleOf(job)}\n${details}`,
    "aria-label": `${titleOf(job)}, ${word ? `${word}, ` : ""}${error ? `${error}, ` : ""}…${job.id.slice(-6)}, ${links}${more ? `, ${more}` : ""}`,
  };
  return job.state === null
    ? html`<span role="img" ...${common}>${inside}</span>`
    : html`<a href=${href("job", { id: job.id })} aria-current=${isCurrent ? "true" : undefined} ...${common}>${inside}</a>`;
}

/** @param {FlowJob[]} jobs @returns {[string, number][]} How many jobs are in each state, in the order of states. */
function countsOf(jobs) {
  return Object.keys(STATES).flatMap((state) => {
    const count = jobs.filter((job) => job.state === state).length;
    return count ? [/** @type {[string, number]} */ ([state, count])] : [];
  });
}
