/** The parts of the vendored libraries that every component needs, in one place. */
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Component, Fragment, createContext, render } from "../vendor/preact.js";
export {
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "../vendor/hooks.js";

/** @typedef {import("../vendor/preact.js").ComponentChildren} Node Whatever markup may hold. */
/** @typedef {Event & {target: HTMLInputElement, currentTarget: HTMLInputElement}} FieldEvent An event of an input. */

/** Markup as a tagged template. Values in the template become text or components, never markup. */
export const html = htm.bind(h);
