// Copies the parts of libraries that the web UI uses, with their licences, to jqmaster/web/vendor/, and records the
// digests of the copies. With these, the tests check the files without npm.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../../jqmaster/web/vendor");

/** By file in vendor/: the package, and the path of the file in it. */
const FILES = {
  "preact.js": ["preact", "dist/preact.module.js"],
  "hooks.js": ["preact", "hooks/dist/hooks.module.js"],
  "LICENSE.preact": ["preact", "LICENSE"],
  "htm.js": ["htm", "dist/htm.mjs"],
  "LICENSE.htm": ["htm", "LICENSE"],
  "uplot.js": ["uplot", "dist/uPlot.esm.js"],
  "uplot.css": ["uplot", "dist/uPlot.min.css"],
  "LICENSE.uplot": ["uplot", "LICENSE"],
  "d3-dag.js": ["d3-dag", "dist/d3-dag.esm.min.mjs"],
  "LICENSE.d3-dag": ["d3-dag", "LICENSE"],
  // The build of d3-dag contains parts of these packages.
  "LICENSE.d3-array": ["d3-array", "LICENSE"],
  "LICENSE.quadprog": ["quadprog", "LICENSE"],
  "LICENSE.javascript-lp-solver": ["javascript-lp-solver", "LICENSE"],
  "LICENSE.stringify-object": ["stringify-object", "license"],
};

/** Replace bare module names, which browsers cannot resolve, and remove references to source maps, which are not copied. */
const adapt = (text) =>
  text.replaceAll('from"preact"', 'from"./preact.js"').replace(/\n?\/\/# sourceMappingURL=.*\n?$/, "");

mkdirSync(target, { recursive: true });
const manifest = {};
for (const [name, [owner, path]] of Object.entries(FILES)) {
  const folder = join(here, "node_modules", owner);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const text = readFileSync(join(folder, path), "utf8");
  const content = name.startsWith("LICENSE") ? text : adapt(text);
  writeFileSync(join(target, name), content);
  const sha256 = createHash("sha256").update(content).digest("hex");
  manifest[name] = { package: owner, version, license, path, sha256 };
}
writeFileSync(join(here, "vendored.json"), JSON.stringify(manifest, null, 2) + "\n");
