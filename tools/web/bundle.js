// Writes jqmaster/web/bundle/: the program as one script, the stylesheets as one, each language as one, and a page that
// loads them under names with the hashes of their contents. Masters serve these files only if they were built from the
// current sources. With --check, write nothing, and fail if the folder differs.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transformSync } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const web = join(here, "../../jqmaster/web");
const bundle = join(web, "bundle");
const SOURCES = [".js", ".css", ".html"];
const SHEETS = ["vendor/uplot.css", "ui/style.css", "ui/states.css"];
const LANGUAGES = { en: "lang/english.js", ja: "lang/japanese.js" };
// Files that a page loads only when it needs them.
const LATER = { layout: "jobs/flow_library.js" };
const target = ["es2022", "chrome105", "firefox110", "safari16"];
const small = { minify: true, charset: "utf8", target };
// Keep the lines of the sources, so that a small change stays small in reviews and merges. Pages are sent with gzip
// anyway.
const readable = {
  bundle: true,
  charset: "utf8",
  target,
  format: "esm",
  legalComments: "none",
  logLevel: "warning",
  write: false,
  absWorkingDir: web,
};

const sha256 = (data) => createHash("sha256").update(data).digest("hex");

/** Returns the paths of the files from which the bundle is built. */
function sources(folder = web) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return path === bundle ? [] : sources(path);
    return SOURCES.some((kind) => entry.name.endsWith(kind)) ? [path] : [];
  });
}

/** Returns one digest of the paths and contents of all sources. */
function digest() {
  const lines = sources().map(
    (path) => `${relative(web, path).split(sep).join("/")} ${sha256(readFileSync(path))}\n`,
  );
  return sha256(lines.sort().join(""));
}

/** Minify libraries only, because they are large and change seldom. */
const libraries = {
  name: "libraries",
  setup: (build) =>
    build.onLoad({ filter: /[/\\]vendor[/\\]\w+\.js$/ }, ({ path }) => ({
      contents: transformSync(readFileSync(path, "utf8"), small).code,
    })),
};

const script = async (path, more = {}) =>
  (await build({ ...readable, plugins: [libraries], entryPoints: [join(web, path)], ...more })).outputFiles[0]
    .text;

/** Returns the files of the bundle by name. */
async function made() {
  const files = { "app.js": await script("shell/app.js") };
  for (const [code, path] of Object.entries(LANGUAGES)) files[`${code}.js`] = await script(path);
  for (const [name, path] of Object.entries(LATER))
    files[`${name}.js`] = await script(path, { minify: true });
  files["app.css"] = SHEETS.map((path) => readFileSync(join(web, path), "utf8")).join("\n");
  const versioned = (name) => `bundle/${name}?v=${sha256(files[name]).slice(0, 16)}`;
  const boot = transformSync(readFileSync(join(web, "shell/boot.js"), "utf8"), small).code.trim();
  let page = readFileSync(join(web, "index.html"), "utf8");
  const replace = (what, by) => {
    if (!page.includes(what)) throw new Error(`index.html has no ${what}`);
    page = page.replace(what, () => by);
  };
  for (const [at, path] of SHEETS.entries())
    replace(
      `  <link rel="stylesheet" href="${path}">\n`,
      at ? "" : `  <link rel="stylesheet" href="${versioned("app.css")}">\n`,
    );
  replace('<script src="shell/boot.js"></script>', `<script>${boot}</script>`);
  replace('src="shell/app.js"', `src="${versioned("app.js")}"`);
  for (const [code, path] of Object.entries(LANGUAGES))
    replace(`data-language-${code}="${path}"`, `data-language-${code}="${versioned(`${code}.js`)}"`);
  for (const [name, path] of Object.entries(LATER))
    replace(`data-${name}="${path}"`, `data-${name}="${versioned(`${name}.js`)}"`);
  files["index.html"] = page;
  files["sources.sha256"] = `${digest()}\n`;
  return files;
}

const files = await made();
if (process.argv.includes("--check")) {
  const present = Object.fromEntries(
    readdirSync(bundle).map((name) => [name, readFileSync(join(bundle, name), "utf8")]),
  );
  const names = new Set([...Object.keys(files), ...Object.keys(present)]);
  const stale = [...names].filter((name) => files[name] !== present[name]);
  if (stale.length) {
    console.error(
      `jqmaster/web/bundle/ was not made of the present sources (${stale.join(", ")}). Run: make bundle`,
    );
    process.exit(1);
  }
} else {
  rmSync(bundle, { recursive: true, force: true });
  mkdirSync(bundle);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(bundle, name), text);
}
