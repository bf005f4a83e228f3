import { ApiError, ConnectionError, type Problem } from "./errors.js";
import type { paths } from "./openapi.js";

type Method = "get" | "post" | "patch" | "delete";
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;

/** The paths that have an operation of a method. */
export type PathOf<M extends Method> = { [P in keyof paths]: paths[P][M] extends object ? P : never }[keyof paths];

type Part<O, Where extends "path" | "query"> = O extends { parameters: Record<Where, infer T> } ? T
  : O extends { parameters: { [W in Where]?: infer T } } ? T : never;
type Body<O> = O extends { requestBody: { content: { "application/json": infer T } } } ? T
  : O extends { requestBody?: { content: { "application/json": infer T } } } ? T | undefined : never;
type Json<R> = R extends { content: { "application/json": infer T } } ? T : undefined;
type Ok<R> = { [S in keyof R]: S extends 200 | 201 | 202 | 204 ? Json<R[S]> : never }[keyof R];

/** What an operation answers. */
export type Answer<P extends keyof paths, M extends Method> = Operation<P, M> extends { responses: infer R } ? Ok<R> : never;

/** An argument: what may be left out may also be undefined, which is not sent, whatever `exactOptionalPropertyTypes` of the caller says. */
type Given<T> = T extends readonly (infer Item)[] ? readonly Given<Item>[]
  : T extends object ? { [K in keyof T]: Given<T[K]> | (Record<never, never> extends Pick<T, K> ? undefined : never) } : T;

type Needed<Name extends string, T> = [T] extends [never] ? { [N in Name]?: undefined }
  : [T] extends [undefined] ? { [N in Name]?: undefined }
  : undefined extends T ? { [N in Name]?: Given<T> }
  : Record<never, never> extends T ? { [N in Name]?: Given<T> | undefined } : { [N in Name]: Given<T> };

/** What one call may say beside the operation's own arguments. */
export interface CallOptions {
  /** Names the intent: the same key never pays twice. Calls that change something get a random one where none is given. */
  readonly idempotencyKey?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What an operation takes. */
export type Arguments<P extends keyof paths, M extends Method> = CallOptions &
  Needed<"path", Part<Operation<P, M>, "path">> & Needed<"query", Part<Operation<P, M>, "query">> & Needed<"body", Body<Operation<P, M>>>;

type Rest<T> = Record<never, never> extends T ? [arguments_?: T | undefined] : [arguments_: T];
type Item<P extends keyof paths> = Answer<P, "get"> extends { readonly data: readonly (infer T)[]; readonly next_cursor: string | null } ? T : never;

/** The paths whose `GET` answers page by page. */
export type ListPath = { [P in PathOf<"get">]: [Item<P>] extends [never] ? never : P }[PathOf<"get">];

export interface ClientOptions {
  /** Of the service, without `/api/v1`. Over http the key is sent to this machine alone, or with `allowHttp`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly fetch?: typeof fetch | undefined;
  /** Of one attempt. */
  readonly timeoutMs?: number | undefined;
  /** At most so many; a call that was refused for what it says is not sent again. */
  readonly maxAttempts?: number | undefined;
  /** Of all attempts and the waits between them. */
  readonly maxTotalMs?: number | undefined;
  readonly allowHttp?: boolean | undefined;
}

const RETRIED = new Set([429, 500, 502, 503, 504]);
const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 8_000;
const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

interface Untyped extends CallOptions {
  readonly path?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
}

/**
 * A client of a meetcore service, typed by its OpenAPI document. It needs `fetch` and Web Crypto alone.
 *
 * A lost connection, a time-out and the statuses 429, 500, 502, 503 and 504 are tried again after `Retry-After` and an
 * exponential back-off with full jitter, under one idempotency key, so that a retry never pays twice.
 */
export class Client {
  readonly #root: string;
  readonly #key: string;
  readonly #fetch: typeof fetch;
  readonly #timeoutMs: number;
  readonly #maxAttempts: number;
  readonly #maxTotalMs: number;

  constructor(options: ClientOptions) {
    const url = new URL(options.baseUrl);
    if (url.protocol !== "https:" && !(url.protocol === "http:" && (options.allowHttp === true || LOOPBACK.has(url.hostname)))) {
      throw new TypeError("baseUrl is an https address: over http the key would be sent in the clear");
    }
    if (url.username || url.password || url.search || url.hash || /\/api\/v1\/*$/.test(url.pathname)) {
      throw new TypeError("baseUrl has no user, no query and no fragment, and comes without /api/v1");
    }
    if (!/^[\x21-\x7e]+$/.test(options.apiKey)) throw new TypeError("apiKey is the text of an API key, without spaces");
    this.#root = `${url.href.replace(/\/+$/, "")}/api/v1`;
    this.#key = options.apiKey;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#maxAttempts = options.maxAttempts ?? 6;
    this.#maxTotalMs = options.maxTotalMs ?? 120_000;
  }

  /** With `format: "markdown"` notes are a text. */
  get(path: "/notes/{id}", given: Arguments<"/notes/{id}", "get"> & { readonly query: { readonly format: "markdown" } }): Promise<string>;
  get<P extends PathOf<"get">>(path: P, ...[given]: Rest<Arguments<P, "get">>): Promise<Answer<P, "get">>;
  get(path: string, given?: unknown): Promise<unknown> {
    return this.#call("GET", path, given as Untyped | undefined);
  }

  post<P extends PathOf<"post">>(path: P, ...[given]: Rest<Arguments<P, "post">>): Promise<Answer<P, "post">> {
    return this.#call("POST", path, given as Untyped | undefined) as Promise<Answer<P, "post">>;
  }

  patch<P extends PathOf<"patch">>(path: P, ...[given]: Rest<Arguments<P, "patch">>): Promise<Answer<P, "patch">> {
    return this.#call("PATCH", path, given as Untyped | undefined) as Promise<Answer<P, "patch">>;
  }

  delete<P extends PathOf<"delete">>(path: P, ...[given]: Rest<Arguments<P, "delete">>): Promise<Answer<P, "delete">> {
    return this.#call("DELETE", path, given as Untyped | undefined) as Promise<Answer<P, "delete">>;
  }

  /** Everything on a list, page by page as it is read. */
  async *pages<P extends ListPath>(path: P, ...[given]: Rest<Arguments<P, "get">>): AsyncGenerator<Item<P>, void, undefined> {
    const first = (given ?? {}) as Untyped;
    let cursor: string | null | undefined;
    do {
      const query = cursor === undefined ? first.query : { ...first.query, cursor };
      const page = (await this.#call("GET", path, { ...first, query: query ?? {} })) as { data: Item<P>[]; next_cursor: string | null };
      yield* page.data;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  async #call(method: string, template: string, given: Untyped = {}): Promise<unknown> {
    const url = this.#url(template, given);
    const key = method === "GET" ? undefined : (given.idempotencyKey ?? crypto.randomUUID());
    if (key !== undefined && !/^[\x21-\x7e]{1,255}$/.test(key)) throw new TypeError("idempotencyKey is 1 to 255 visible ASCII characters");
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#key}`, Accept: "application/json" };
    if (key !== undefined) headers["Idempotency-Key"] = key;
    if (given.body !== undefined) headers["Content-Type"] = "application/json";
    const body = given.body === undefined ? null : JSON.stringify(given.body);
    const endsAt = Date.now() + this.#maxTotalMs;
    for (let attempt = 1; ; attempt++) {
      const outcome = await this.#attempt(url, { method, headers, body, redirect: "manual" }, endsAt - Date.now(), given.signal, attempt, key);
      if (!(outcome instanceof Error)) return outcome.result;
      const waitMs = (outcome.retryAfterS ?? 0) * 1000
        + Math.random() * Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempt - 1));
      const isFinal = outcome.status !== undefined && !RETRIED.has(outcome.status);
      const freeInMs = outcome instanceof ApiError ? (outcome.hostFreeInS ?? 0) * 1000 : 0;
      if (isFinal || attempt >= this.#maxAttempts || Date.now() + Math.max(waitMs, freeInMs) >= endsAt) throw outcome;
      await pause(waitMs, given.signal);
    }
  }

  #url(template: string, given: Untyped): string {
    const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = given.path?.[name];
      // A browser and `fetch` read "." and ".." as steps, encoded or not.
      if (!value || value === "." || value === "..") throw new TypeError(`${template} needs the ${name} of its path`);
      return encodeURIComponent(value);
    });
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(given.query ?? {})) {
      if (value !== undefined && value !== null) query.set(name, String(value));
    }
    return `${this.#root}${path}${query.size > 0 ? `?${query}` : ""}`;
  }

  async #attempt(
    url: string, init: RequestInit, leftMs: number, signal: AbortSignal | undefined, attempt: number, key: string | undefined,
  ): Promise<{ result: unknown } | ApiError | ConnectionError> {
    const timeoutMs = Math.max(1, Math.min(this.#timeoutMs, leftMs));
    const timeout = AbortSignal.timeout(timeoutMs);
    let response: Response, text: string;
    try {
      response = await this.#fetch(url, { ...init, signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]) });
      text = await response.text();
    } catch (cause) {
      signal?.throwIfAborted();
      const why = timeout.aborted ? `no answer in ${timeoutMs} ms` : "no answer";
      return new ConnectionError(why, undefined, undefined, attempt, key, { cause });
    }
    if (response.status === 204) return { result: undefined };
    if (response.ok && response.headers.get("content-type")?.startsWith("text/markdown")) return { result: text };
    const read = json(text), waitS = retryAfterS(response.headers);
    if (response.ok) {
      if (read !== undefined) return { result: read };
    } else if (isProblem(read)) {
      return new ApiError(response.status, read.error, waitS, attempt, key, hostFreeInS(read.error, response.headers));
    }
    return new ConnectionError(`status ${response.status} with a body that is not of the API`, response.status, waitS, attempt, key);
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isProblem(read: unknown): read is { error: Problem } {
  const error = (read as { error?: { code?: unknown; message?: unknown } } | null | undefined)?.error;
  return typeof error?.code === "string" && typeof error.message === "string";
}

/** Seconds, or a date as proxies send it, counted from `Date`. */
function retryAfterS(headers: Headers): number | undefined {
  const text = headers.get("retry-after") ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text);
  return secondsUntil(text, headers);
}

function hostFreeInS(problem: Problem, headers: Headers): number | undefined {
  const at = problem.code === "service_unavailable" ? problem.details?.next_available_at : undefined;
  return typeof at === "string" ? secondsUntil(at, headers) : undefined;
}

function secondsUntil(instant: string, headers: Headers): number | undefined {
  const seconds = (Date.parse(instant) - Date.parse(headers.get("date") ?? "")) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
