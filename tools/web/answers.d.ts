/** What the API answers, by method and path, from openapi/jqmaster.yaml. */
import type { components, paths } from "./openapi";

/** A path of the document with any text in place of its parameters. */
type Filled<Path extends string> = Path extends `${infer Before}{${string}}${infer After}`
  ? `${Before}${string}${Filled<After>}`
  : Path;

/** The path of the document that `Path` fills in; never if there is none. */
type Documented<Path extends string> = Path extends keyof paths
  ? Path
  : { [Known in keyof paths]: [Filled<Known>, Path] extends [Path, Filled<Known>] ? Known : never }[keyof paths];

/** The bodies of those answers of an operation that report success. */
type Body<Operation> = Operation extends { responses: infer Responses }
  ? {
      [Status in keyof Responses & (200 | 201 | 202)]: Responses[Status] extends {
        content: { "application/json": infer Content };
      }
        ? Content
        : null;
    }[keyof Responses & (200 | 201 | 202)]
  : unknown;

export type Method = "get" | "post" | "put" | "patch" | "delete";

/** The body of a good answer to `Path`, written without its leading slash; unknown where the document has no such path. */
export type Answer<Path extends string, Verb extends Method = "get"> = [Documented<`/${Path}`>] extends [never]
  ? unknown
  : Body<paths[Documented<`/${Path}`>][Verb]>;

export type Schemas = components["schemas"];
