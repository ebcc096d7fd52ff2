/** Our own icons, in the colour of the text. A text next to each icon always says the same. */
import { html } from "../core/lib.js";

/** @type {Record<string, string>} The SVG path of each icon, in a square of 16 by 16. */
const PATHS = {
  overview: "M2 9.5 8 3l6 6.5M4 8v5.5h3V10h2v3.5h3V8",
  jobs: "M2.5 4h11M2.5 8h11M2.5 12h11",
  failures: "M8 2.5 14 13.5H2ZM8 6.5v3.2M8 11.4v.4",
  names: "M2.5 8.5v-6h6l5 5-6 6ZM5.5 5.5h.1",
  batches: "M2.500 5 8 2.500 13.500 5 8 7.500ZM2.500 8 8 10.500 13.500 8M2.500 11 8 13.500 13.500 11",
  constraints: "M2.5 3h11L9.5 8.5v4l-3 1.5V8.5Z",
  definitions: "M2.500 4h11v9.500h-11ZM2.500 7h11M5.500 2v3.500M10.500 2v3.500M8 9v1.800l1.500.9",
  calendars:
    "M2.500 4h11v9.500h-11ZM2.500 7h11M5.500 2v3.500M10.500 2v3.500M5.500 10.300l1.700 1.700 3.300-3",
  events:
    "M8 2.500a3.500 3.500 0 0 0-3.500 3.500v3L3 11.500h10L11.500 9V6A3.500 3.500 0 0 0 8 2.500ZM6.500 13.500h3",
  challenges: "M2.500 3h11v8h-6l-3 2.500V11h-2ZM5.500 7l1.700 1.700L10.500 5.500",
  notices: "M2.500 4.500h11v7.500h-11ZM2.500 5l5.500 4 5.500-4",
  workers: "M3 3.5h10v6H3ZM6 13h4M8 9.5V13",
  masters: "M8 2.5 9.7 6l3.8.5-2.8 2.7.7 3.8L8 11.2 4.6 13l.7-3.8L2.5 6.5 6.300 6Z",
  namespaces:
    "M2.500 2.500h4.500v4.500h-4.500ZM9 2.500h4.500v4.500h-4.500ZM2.500 9h4.500v4.500h-4.500ZM9 9h4.500v4.500h-4.500Z",
  incidents: "M2.500 8.500h2.500l2-5 3 9 2-4h1.500",
  targets:
    "M8 2.500a5.500 5.500 0 1 0 0 11a5.500 5.500 0 1 0 0-11M8 5.500a2.500 2.500 0 1 0 0 5a2.500 2.500 0 1 0 0-5M8 8h.1",
  enqueue: "M8 3v10M3 8h10",
  audit: "M4 2.500h8v11H4ZM6 5.500h4M6 8h4M6 10.500h2.500",
  settings:
    "M2.5 5h6M11.500 5h2M2.500 11h2M7.500 11h6M8.500 5a1.500 1.500 0 1 0 3 0a1.500 1.500 0 1 0-3 0M4.500 11a1.500 1.500 0 1 0 3 0a1.500 1.500 0 1 0-3 0",
  access: "M10.500 2.500a3 3 0 1 1-2.200 5L3 12.800V14h2.500v-1.500H7V11l1.800-1.800M11 5h.1",
  personal_data: "M8 3a2.500 2.500 0 1 0 0 5a2.500 2.500 0 1 0 0-5M3 13.500c.500-3 2.500-4 5-4s4.500 1 5 4",
  pause: "M5.500 3.500v9M10.500 3.500v9",
  resume: "M5 3.500 12 8l-7 4.500Z",
  run: "M9 2 4 9h3.500L7 14l5-7H8.500Z",
  keys: "M5.800 6a2.200 2.200 0 1 1 3.200 2c-.7.400-1 .8-1 1.600M8 12.200v.1",
  menu: "M2.500 4h11M2.500 8h11M2.500 12h11",
  check: "M3 8.500 6.500 12 13 4.500",
  close: "M3.500 3.500l9 9M12.500 3.500l-9 9",
  auto: "M8 2.500a5.500 5.500 0 1 0 0 11V2.500a5.500 5.500 0 0 1 0 11",
  light:
    "M8 5.500a2.500 2.500 0 1 0 0 5a2.500 2.500 0 1 0 0-5M8 1.500v1.500M8 13v1.500M1.500 8H3M13 8h1.500M3.400 3.400l1 1M11.600 11.600l1 1M3.400 12.600l1-1M11.600 4.400l1-1",
  dark: "M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500Z",
  times: "M8 3.500V8l3 2M2.500 8a5.500 5.500 0 1 0 11 0a5.500 5.500 0 1 0-11 0",
};

/** @param {{name: string}} props Draws nothing if there is no icon of this name. */
export function Icon({ name }) {
  const path = PATHS[name];
  if (!path) return null;
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path d=${path} /></svg>`;
}

/** The picture of icon.svg as markup, which needs no request. */
export const Logo = () =>
  html`<svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" fill="#1d5fd0" />
      <path d="M8 10h16M8 16h11M8 22h6" stroke="#fff" stroke-width="3" stroke-linecap="round" />
      <circle cx="23" cy="20" r="4" fill="#7ee0a6" />
    </svg>`;
