/** The jobs that a constraint would have held back in the last hour, based on the jobs that are still stored. */
import { Problem, post, toJson } from "../core/api.js";
import { number, t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Button, ErrorBox } from "../ui/controls.js";
import { Text, Time, durationText } from "../ui/formats.js";
import { Sparkline } from "../ui/sparkline.js";

/** @typedef {import("../../answers").Schemas["ReplayAnswer"]} ReplayAnswer */

/** @typedef {import("../../answers").Schemas["KeyReplayView"]} KeyReplay */

const MAX_KEYS = 8;

/** @param {{document: unknown}} props `document`: the constraint in the form; null: the form is not valid. */
export function LastHour({ document }) {
  const asked = document ? toJson(document) : null;
  const [state, setState] = useState(
    /** @type {{of: string | null, answer: ReplayAnswer | null, problem: Problem | null, isBusy: boolean}} */ ({
      of: null,
      answer: null,
      problem: null,
      isBusy: false,
    }),
  );
  const run = async () => {
    setState({ of: asked, answer: null, problem: null, isBusy: true });
    try {
      const answer = await post("api/constraints/preview/last-hour", document);
      setState({ of: asked, answer, problem: null, isBusy: false });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      setState({ of: asked, answer: null, problem, isBusy: false });
    }
  };
  const isOld = state.of !== null && state.of !== asked && !state.isBusy;
  return html`<section class="replay stack" aria-live="polite">
      <h3>${t("constraints.replay")}</h3><p class="muted small">${t("constraints.replay.text")}</p>
      <p>
        <${Button} class="small" disabled=${!document || state.isBusy} onClick=${run}>
          ${t(state.isBusy ? "loading" : "constraints.replay.run")}
        <//>
      </p>
      ${
        isOld
          ? html`<p class="muted">${t("constraints.replay.old")}</p>`
          : html`<${ErrorBox} problem=${state.problem} />${state.answer && html`<${Told} told=${state.answer} />`}`
      }
    </section>`;
}

/** @param {{told: ReplayAnswer}} props */
function Told({ told }) {
  const { points } = told;
  const units = told.units && { ...told.units, unit: visible(told.units.unit) };
  const covers = [
    t("constraints.replay.covers", { count: told.looked_at, minutes: points.length - 1 }),
    !told.is_whole && t("constraints.replay.part"),
    told.gone > 0 && t("constraints.replay.gone", { count: told.gone }),
    told.without_key > 0 && t("constraints.preview.without", { count: told.without_key }),
    t("constraints.replay.last_run"),
  ];
  return html`${
    told.held === 0
      ? html`<p><strong>${t("constraints.replay.none", { count: told.started })}</strong></p>`
      : html`<p>
          <strong>${t("constraints.replay.held", { held: told.held, count: told.started })}</strong> ${t(
            "constraints.replay.times",
            {
              p95: durationText(told.p95_ms ?? 0),
              longest: durationText(told.longest_ms ?? 0),
              most: told.most_held,
            },
          )}
          ${told.held_now > 0 && ` ${t("constraints.replay.now", { count: told.held_now })}`}
        </p>
        ${
          units &&
          html`<p>
              ${t("constraints.replay.units", {
                held: number(units.held),
                started: number(units.started),
                most: number(units.most_held),
                unit: units.unit,
              })}
            </p>`
        }
        <${Sparkline}
          values=${points.map((point) => (units ? (point.held_units ?? 0) : point.held))} label=${
            units ? t("constraints.replay.chart.units", { unit: units.unit }) : t("constraints.replay.chart")
          } />`
  }
    ${
      told.held > 0 &&
      told.keys &&
      html`<p>
          ${told.keys
            .slice(0, MAX_KEYS)
            .map(
              (/** @type {KeyReplay} */ key) =>
                key.held > 0 &&
                html`<span class="chip"><${Text} value=${key.value} max=${40} /> ${number(key.held)} / ${number(key.started)}</span> `,
            )}
        </p>`
    }
    <p class="muted small">
      <${Time} at=${told.from} /> – <${Time} at=${told.to} />. ${covers.filter(Boolean).join(" ")}
    </p>`;
}
