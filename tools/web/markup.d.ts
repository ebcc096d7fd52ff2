/** What the type checker knows of markup (markup.js): the props of components, and nothing of those of elements. */
import type { ComponentChildren, VNode } from "preact";

export namespace JSX {
  type Element = VNode<any> | VNode<any>[];
  type ElementType = string | ((props: any) => ComponentChildren) | (new (props: any) => any);
  interface ElementChildrenAttribute {
    children: unknown;
  }
  interface IntrinsicAttributes {
    key?: string | number;
  }
  interface IntrinsicElements {
    [name: string]: Record<string, unknown>;
  }
}
export function jsx(type: unknown, props: unknown): JSX.Element;
export const jsxs: typeof jsx;
export const Fragment: (props: { children?: ComponentChildren }) => JSX.Element;
