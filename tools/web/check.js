// Type-check the web UI against openapi/jqmaster.yaml. For the check, its files are put next to the types of the API's
// answers, its templates are converted to JSX, and types replace the vendored libraries, which have none.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { withMarkup } from "./markup.js";

const here = dirname(fileURLToPath(import.meta.url));
const build = join(here, "build");
const vendor = join(build, "web/vendor");

rmSync(build, { recursive: true, force: true });
cpSync(join(here, "../../jqmaster/web"), join(build, "web"), { recursive: true });
rmSync(vendor, { recursive: true });
rmSync(join(build, "web/bundle"), { recursive: true, force: true });
mkdirSync(vendor);
const TYPES = {
  "preact.d.ts": 'export * from "preact";\n',
  "hooks.d.ts": 'export * from "preact/hooks";\n',
  "htm.d.ts": 'export { default } from "htm";\n',
  "d3-dag.d.ts": 'export * from "d3-dag";\n',
  "uplot.d.ts": 'export { default } from "uplot";\n',
};
for (const name of readdirSync(join(build, "web"), { recursive: true })) {
  const path = join(build, "web", name);
  if (name.endsWith(".js")) writeFileSync(path, withMarkup(readFileSync(path, "utf8")));
}
for (const [name, text] of Object.entries(TYPES)) writeFileSync(join(vendor, name), text);
const run = (tool, ...args) =>
  spawnSync(join(here, "node_modules/.bin", tool), args, { stdio: "inherit" }).status ?? 1;
const generated = run(
  "openapi-typescript",
  join(here, "../../openapi/jqmaster.yaml"),
  "--output",
  join(build, "openapi.d.ts"),
);
cpSync(join(here, "answers.d.ts"), join(build, "answers.d.ts"));
process.exit(generated || run("tsc", "--project", join(here, "tsconfig.json")));
