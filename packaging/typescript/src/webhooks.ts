import type { components } from "./openapi.js";

type Schemas = components["schemas"];

/** An event as it is posted; `data` is typed by `type`. Pass by a `type` that you do not know. */
export type WebhookEvent = {
  [Name in keyof Schemas]: Name extends `Stored${string}` | "Event" ? never
    : Name extends `${string}Event` ? (Schemas[Name] extends { type: string; data: unknown } ? Schemas[Name] : never) : never;
}[keyof Schemas];

/** The delivery is not authentic: answer 401. The message is safe to log. */
export class SignatureRejected extends Error {
  override readonly name = "SignatureRejected";
}

const TOLERANCE_S = 300;
const MAX_HEADER_LENGTH = 2048;
const MAX_SIGNATURES = 16;

/**
 * Verifies a delivery and reads it. Answer 2xx at once, drop an event whose `id` you have seen, and work afterwards.
 *
 * @param secrets the webhook's secret, `whsec_…`; during a rotation the new and the old one
 * @param signature the header `X-Service-Signature`
 * @param rawBody the body as received, unparsed
 * @throws {SignatureRejected} the signature is missing, malformed, wrong, or further than `toleranceS` from now
 * @throws {TypeError} a secret is none, or the signed body is no event
 */
export async function verifyWebhook(
  secrets: string | readonly string[],
  signature: string | null | undefined,
  rawBody: string | Uint8Array<ArrayBuffer>,
  { nowS = Date.now() / 1000, toleranceS = TOLERANCE_S }: { nowS?: number | undefined; toleranceS?: number | undefined } = {},
): Promise<WebhookEvent> {
  const known = typeof secrets === "string" ? [secrets] : secrets;
  if (known.length === 0 || !known.every((each) => /^whsec_./.test(each))) {
    throw new TypeError("give the webhook's secret, whsec_..., as it was when it was registered");
  }
  const [at, marks] = readSignature(signature);
  if (!(Math.abs(nowS - Number(at)) <= toleranceS)) throw new SignatureRejected("the signature is too old, or of the future");
  const body = typeof rawBody === "string" ? new TextEncoder().encode(rawBody) : rawBody;
  const signed = new Uint8Array([...new TextEncoder().encode(`${at}.`), ...body]);
  let isAuthentic = false;
  for (const secret of known) {
    const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const mark of marks) isAuthentic = (await crypto.subtle.verify("HMAC", key, mark, signed)) || isAuthentic;
  }
  if (!isAuthentic) throw new SignatureRejected("the signature is of another secret or body");
  const event = read(body);
  if (typeof event?.id !== "string" || typeof event.type !== "string") throw new TypeError("the signed body is no event");
  return event;
}

function read(body: Uint8Array): WebhookEvent | undefined {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) as WebhookEvent;
  } catch {
    return undefined;
  }
}

/** The time and the signatures of the header `t=<unix time>,v1=<hex>`, which may have several `v1`; other versions are ignored. */
function readSignature(header: string | null | undefined): [at: string, marks: Uint8Array<ArrayBuffer>[]] {
  if (!header) throw new SignatureRejected("there is no X-Service-Signature header");
  const parts = header.length > MAX_HEADER_LENGTH ? [] : header.split(",").map((part) => part.trim().split(/=(.*)/s));
  const valuesOf = (name: string): string[] => parts.filter((part) => part[0] === name).map((part) => part[1] ?? "");
  const [times, marks] = [valuesOf("t"), valuesOf("v1")];
  const [at] = times;
  const isReadable = times.length === 1 && /^\d{1,12}$/.test(at ?? "") && marks.every((mark) => /^[0-9a-f]{64}$/.test(mark));
  if (at === undefined || !isReadable || marks.length < 1 || marks.length > MAX_SIGNATURES) {
    throw new SignatureRejected("the X-Service-Signature header is not t=<unix time>,v1=<hex>");
  }
  return [at, marks.map((mark) => Uint8Array.from(mark.match(/../g) ?? [], (pair) => parseInt(pair, 16)))];
}
