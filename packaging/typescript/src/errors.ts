import type { components } from "./openapi.js";

type Schemas = components["schemas"];

/** What the API answers instead of a result, by `code`: `details` is typed by it. */
export type Problem = {
  [Name in keyof Schemas]: Name extends `${string}Error` ? (Schemas[Name] extends { error: infer P } ? P : never) : never;
}[keyof Schemas];

/** Where a failed call stands: how often it was sent, and under which idempotency key, if it has one. */
export interface Attempted {
  readonly attempts: number;
  readonly idempotencyKey: string | undefined;
}

/** An answer other than 2xx. Branch on `problem.code`; an unknown code is possible. `message` has the first of `details.fields`. */
export class ApiError extends Error implements Attempted {
  override readonly name = "ApiError";

  constructor(
    readonly status: number,
    readonly problem: Problem,
    readonly retryAfterS: number | undefined,
    readonly attempts: number,
    readonly idempotencyKey: string | undefined,
    /** Seconds until a host is free, where none is and that is known. */
    readonly hostFreeInS: number | undefined,
  ) {
    super([`${problem.code}: ${problem.message}`, ...fieldProblems(problem).slice(0, 1)].join(" "));
  }
}

/** Nothing where a part of the body is not as documented. */
function fieldProblems(problem: Problem): string[] {
  const fields = problem.code === "invalid_request" ? problem.details?.fields : undefined;
  return Object.entries(fields ?? {}).flatMap(([name, each]) => (Array.isArray(each) ? each.map((text) => `${name}: ${text}`) : []));
}

/** No usable answer: no connection, no answer in time, or one that is not of the API. The call may have been carried out. */
export class ConnectionError extends Error implements Attempted {
  override readonly name = "ConnectionError";

  constructor(
    message: string,
    readonly status: number | undefined,
    readonly retryAfterS: number | undefined,
    readonly attempts: number,
    readonly idempotencyKey: string | undefined,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
