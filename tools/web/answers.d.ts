/** What the API answers, by path, from openapi/jqmaster.yaml. */
import type { components, paths } from "./openapi";

/** The body of a 200 to a GET of `Path`, written without its leading slash; any where the document has no such path. */
export type Answer<Path extends string> = `/${Path}` extends keyof paths
  ? paths[`/${Path}`] extends { get: { responses: { 200: { content: { "application/json": infer Body } } } } }
    ? Body
    : any
  : any;

export type Schemas = components["schemas"];
