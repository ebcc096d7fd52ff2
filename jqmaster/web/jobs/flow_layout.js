/** The positions of a flow's jobs in its picture, and the lines between them. This module does not draw. */

/** @typedef {import("../../answers").Schemas["FlowJob"]} FlowJob */

/**
 * A place in the picture: one job, a group of similar jobs, or a junction where many lines meet.
 * @typedef {{key: string, kind: "job" | "group" | "junction", jobs: FlowJob[], isFailure: boolean, x: number, y:
 *   number, before: string[], behind: string[]}} Place
 *   `isFailure`: the flow broke there, and the place has room for the reason. `x`, `y`: the upper left corner of the
 *   place. `before`, `behind`: keys of the places that lines come from and lead to, skipping junctions.
 */
/** @typedef {{key: string, from: string, to: string, path: string}} Line */
/** @typedef {{places: Place[], lines: Line[], width: number, height: number}} Picture */

export const NODE = { width: 204, height: 46 };
const FAILURE = { width: 264, height: 64 };
/** The room for the label of a job, below its name. */
const LABEL_HEIGHT = 17;
const JUNCTION = 8;
const GAP = { across: 14, along: 52 };
const MARGIN = 12;
/** If there are at least this many similar jobs, they are drawn as one group. */
export const GROUPED_FROM = 5;
/** If there are more lines than this, a faster layout is used. */
const FEW_LINES = 120;

/** @type {typeof import("./flow_library.js") | null} */
let library = null;

/** Load the library that lays out graphs. Most visitors see no flow, and never load it. */
export async function loadLayout() {
  const address = document.documentElement.getAttribute("data-layout") ?? "";
  library ??= await import(new URL(address, document.baseURI).href);
}

/** @param {Place} place @returns {{width: number, height: number}} */
export function sizeOf(place) {
  if (place.kind === "junction") return { width: JUNCTION, height: JUNCTION };
  const { width, height } = place.isFailure ? FAILURE : NODE;
  const isLabeled = place.kind === "job" && Boolean(place.jobs[0]?.label);
  return { width, height: height + (isLabeled ? LABEL_HEIGHT : 0) };
}

/** @param {Iterable<string>} keys */
const told = (keys) => [...keys].sort().join(" ");

/**
 * Return the places and the connections between them, before the layout.
 * @param {FlowJob[]} jobs
 * @param {string} current The ID of a job that is always drawn by itself.
 * @param {boolean} isEach Whether every job is drawn by itself.
 * @param {Set<string>} failures The IDs of jobs at which the flow broke. These jobs are drawn by themselves, too.
 */
function placesOf(jobs, current, isEach, failures) {
  /** @type {Map<string, string[]>} */
  const behind = new Map(jobs.map((job) => [job.id, []]));
  for (const job of jobs) for (const other of job.after) behind.get(other)?.push(job.id);
  /** @type {Map<string, FlowJob[]>} */
  const alike = new Map();
  for (const job of jobs) {
    const isSingle = isEach || job.id === current || job.name === null || failures.has(job.id);
    const likeness = JSON.stringify([job.name, job.when, told(job.after), told(behind.get(job.id) ?? [])]);
    const key = isSingle ? job.id : likeness;
    alike.set(key, [...(alike.get(key) ?? []), job]);
  }
  /** @type {Place[]} */
  const places = [];
  for (const some of alike.values()) {
    const groups = some.length >= GROUPED_FROM ? [some] : some.map((job) => [job]);
    for (const group of groups) {
      const kind = group.length > 1 ? "group" : "job";
      const key = kind === "group" ? `group ${group[0]?.id}` : (group[0]?.id ?? "");
      const isFailure = group.some((job) => failures.has(job.id));
      places.push({ key, kind, jobs: group, isFailure, x: 0, y: 0, before: [], behind: [] });
    }
  }
  /** @type {Map<string, Place>} */
  const placeOf = new Map(places.flatMap((place) => place.jobs.map((job) => [job.id, place])));
  for (const place of places) {
    const before = new Set(place.jobs.flatMap((job) => job.after.map((id) => placeOf.get(id)?.key ?? "")));
    place.before = [...before].filter(Boolean);
  }
  const byKey = new Map(places.map((place) => [place.key, place]));
  for (const place of places) for (const key of place.before) byKey.get(key)?.behind.push(place.key);
  return places;
}

/**
 * Return the lines. If each place of one set leads to each place of another set, the lines meet in a junction.
 * @param {Place[]} places
 * @returns {{pairs: [string, string][], junctions: Place[]}}
 */
function connected(places) {
  /** @type {Map<string, Place[]>} */
  const together = new Map();
  for (const place of places) {
    const key = told(place.before);
    together.set(key, [...(together.get(key) ?? []), place]);
  }
  /** @type {[string, string][]} */
  const pairs = [];
  /** @type {Place[]} */
  const junctions = [];
  for (const [key, some] of together) {
    const before = some[0]?.before ?? [];
    if (before.length < 2 || some.length < 2) {
      for (const place of some) for (const other of before) pairs.push([other, place.key]);
      continue;
    }
    const junction = `junction ${key}`;
    const isFailure = false;
    junctions.push({
      key: junction,
      kind: "junction",
      jobs: [],
      isFailure,
      x: 0,
      y: 0,
      before: [],
      behind: [],
    });
    for (const other of before) pairs.push([other, junction]);
    for (const place of some) pairs.push([junction, place.key]);
  }
  return { pairs, junctions };
}

/**
 * Lay out the jobs of a flow from left to right. Call it after `loadLayout` has ended.
 * @param {FlowJob[]} jobs
 * @param {{current: string, isEach: boolean, failures: Set<string>}} options
 * @returns {Picture}
 */
export function pictureOf(jobs, { current, isEach, failures }) {
  const real = placesOf(jobs, current, isEach, failures);
  const { pairs, junctions } = connected(real);
  const places = [...real, ...junctions];
  if (library === null) throw new Error("The library that lays out graphs is not loaded.");
  /** @type {import("../vendor/d3-dag.js").MutGraph<Place, undefined>} */
  const graph = library.graph();
  const nodes = new Map(places.map((place) => [place.key, graph.node(place)]));
  for (const [from, to] of pairs) {
    const [start, end] = [nodes.get(from), nodes.get(to)];
    if (start && end) graph.link(start, end);
  }
  // The library lays out flows from top to bottom, so its horizontal axis is our vertical one.
  const isSmall = pairs.length <= FEW_LINES;
  const arrange = library
    .sugiyama()
    .nodeSize((/** @type {{data: Place}} */ { data }) => [sizeOf(data).height, sizeOf(data).width])
    .gap([GAP.across, GAP.along])
    .layering(library.layeringLongestPath())
    .decross(isSmall ? library.decrossTwoLayer() : library.decrossDfs())
    .coord(isSmall ? library.coordGreedy() : library.coordCenter());
  const { width: across, height: along } = arrange(graph);
  for (const node of graph.nodes()) {
    const { width, height } = sizeOf(node.data);
    node.data.x = Math.round(node.y - width / 2 + MARGIN);
    node.data.y = Math.round(node.x - height / 2 + MARGIN);
  }
  const lines = [...graph.links()].map(({ source, target, points }) => ({
    key: `${source.data.key} ${target.data.key}`,
    from: source.data.key,
    to: target.data.key,
    path: pathThrough(source.data, target.data, points),
  }));
  return {
    places: places.sort((a, b) => a.x - b.x || a.y - b.y),
    lines,
    width: Math.ceil(along + 2 * MARGIN),
    height: Math.ceil(across + 2 * MARGIN),
  };
}

/**
 * @param {Place} from
 * @param {Place} to
 * @param {[number, number][]} points The points of the line. Only the points between its two ends are kept.
 */
function pathThrough(from, to, points) {
  const start = [from.x + sizeOf(from).width, from.y + sizeOf(from).height / 2];
  const end = [to.x, to.y + sizeOf(to).height / 2];
  const between = points.slice(1, -1).map(([x, y]) => [y + MARGIN, x + MARGIN]);
  let path = `M${told2(start)}`;
  let [x, y] = /** @type {[number, number]} */ (start);
  for (const next of [...between, end]) {
    const [toX, toY] = /** @type {[number, number]} */ (next);
    const middle = (x + toX) / 2;
    path += `C${told2([middle, y])} ${told2([middle, toY])} ${told2([toX, toY])}`;
    [x, y] = [toX, toY];
  }
  return path;
}

/** @param {number[]} point */
const told2 = (point) => point.map((part) => Math.round(part * 10) / 10).join(",");
