import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, Client, ConnectionError, type Account, type Meeting, type WebhookWithSecret } from "../src/index.js";
import { answer, refusal, scripted } from "./server.js";

const apiKey = "mk_live_" + "k".repeat(43);
const soon = { "retry-after": "0" };
const wanted = { title: "Rapat", date: "2027-01-01", start_time: "09:00", pricing_tier_id: "standard-100" } as const;

test("a call that changes something keeps its idempotency key over retries", async () => {
  const { baseUrl, sent } = await scripted(
    answer(503, refusal("service_unavailable"), soon), answer(500, "<html>", soon), (response) => response.destroy(), answer(201, { id: "m" }),
  );
  const made: Meeting = await new Client({ baseUrl, apiKey }).post("/meetings", { body: wanted });
  assert.equal(made.id, "m");
  assert.equal(sent.length, 4);
  assert.equal(new Set(sent.map((each) => each.headers["idempotency-key"])).size, 1);
  assert.match(String(sent[0]?.headers["idempotency-key"]), /^[0-9a-f-]{36}$/);
  assert.deepEqual(sent.map((each) => JSON.parse(each.body)), Array(4).fill(wanted));
  assert.equal(sent[0]?.headers.authorization, `Bearer ${apiKey}`);
});

test("an intent is named by the caller's own key", async () => {
  const { baseUrl, sent } = await scripted(answer(201, { id: "m" }));
  await new Client({ baseUrl, apiKey }).post("/meetings", { body: wanted, idempotencyKey: "order-1" });
  assert.equal(sent[0]?.headers["idempotency-key"], "order-1");
});

test("an undefined argument is not sent", async () => {
  const { baseUrl, sent } = await scripted(answer(200, { id: "w" }));
  const client = new Client({ baseUrl, apiKey, timeoutMs: undefined });
  await client.patch("/webhooks/{id}", { path: { id: "w" }, body: { is_active: true, description: undefined }, idempotencyKey: undefined });
  await client.get("/meetings", { query: { status: undefined, limit: 1 } });
  assert.deepEqual(sent.map((each) => [each.url, each.body]), [["/api/v1/webhooks/w", '{"is_active":true}'], ["/api/v1/meetings?limit=1", ""]]);
  assert.match(String(sent[0]?.headers["idempotency-key"]), /^[0-9a-f-]{36}$/);
});

test("a refusal is not repeated, and its details are typed by its code", async () => {
  const { baseUrl, sent } = await scripted(answer(422, refusal("insufficient_credits", { required: 15, available: 4, topup_url: "https://m" })));
  const error = await new Client({ baseUrl, apiKey }).post("/meetings", { body: wanted, idempotencyKey: "order-2" }).catch((e: unknown) => e);
  assert.ok(error instanceof ApiError);
  assert.ok(error.problem.code === "insufficient_credits");
  const required: number = error.problem.details.required;
  assert.deepEqual([required, error.status, error.attempts, error.idempotencyKey, sent.length], [15, 422, 1, "order-2", 1]);
});

test("the message has the first problem of a field", async () => {
  const fields = { status: ["must be one of scheduled, started", "too long"], title: ["is required"] };
  for (const [details, message] of [
    [{ fields }, "invalid_request: no status: must be one of scheduled, started"],
    [{ fields: { title: [] } }, "invalid_request: no"], [{ fields: 1 }, "invalid_request: no"], [null, "invalid_request: no"],
  ] as const) {
    const { baseUrl } = await scripted(answer(400, refusal("invalid_request", details)));
    await assert.rejects(new Client({ baseUrl, apiKey }).get("/meetings"), { name: "ApiError", message });
  }
});

test("attempts end", async () => {
  const { baseUrl, sent } = await scripted(answer(429, refusal("rate_limited"), soon));
  const error = await new Client({ baseUrl, apiKey, maxAttempts: 3 }).get("/me").catch((e: unknown) => e);
  assert.ok(error instanceof ApiError && error.problem.code === "rate_limited");
  assert.deepEqual([error.attempts, sent.length, error.retryAfterS], [3, 3, 0]);
});

test("no attempt begins after the total time", async () => {
  for (const [body, kind] of [[refusal("service_unavailable"), ApiError], ["<html>", ConnectionError]] as const) {
    const { baseUrl, sent } = await scripted(answer(503, body, { "retry-after": "60" }));
    await assert.rejects(new Client({ baseUrl, apiKey, maxTotalMs: 1_000 }).get("/me"), kind);
    assert.equal(sent.length, 1);
  }
});

test("no attempt waits for a host that is free after the total time", async () => {
  for (const [at, attempts] of [["2027-01-01T09:00:02Z", 1], ["2027-01-01T09:00:00Z", 2], [null, 2]] as const) {
    const busy = answer(503, refusal("service_unavailable", { next_available_at: at }), { ...soon, date: "Fri, 01 Jan 2027 09:00:00 GMT" });
    const { baseUrl, sent } = await scripted(busy);
    await assert.rejects(new Client({ baseUrl, apiKey, maxAttempts: 2, maxTotalMs: 1_500 }).post("/meetings", { body: wanted }), ApiError);
    assert.equal(sent.length, attempts, String(at));
  }
});

test("Retry-After may be a date, which counts from Date", async () => {
  const date = "Fri, 01 Jan 2027 00:00:00 GMT";
  const { baseUrl } = await scripted(answer(503, refusal("service_unavailable"), { date, "retry-after": "Fri, 01 Jan 2027 00:00:07 GMT" }));
  const error = await new Client({ baseUrl, apiKey, maxAttempts: 1 }).get("/me").catch((e: unknown) => e);
  assert.ok(error instanceof ApiError);
  assert.equal(error.retryAfterS, 7);
});

test("a list is read page by page", async () => {
  const { baseUrl, sent } = await scripted(
    answer(200, { data: [{ id: "1" }, { id: "2" }], next_cursor: "a b" }), answer(200, { data: [{ id: "3" }], next_cursor: null }),
  );
  const found: string[] = [];
  for await (const meeting of new Client({ baseUrl, apiKey }).pages("/meetings", { query: { status: "scheduled", limit: 2 } })) found.push(meeting.id);
  assert.deepEqual(found, ["1", "2", "3"]);
  assert.deepEqual(sent.map((each) => each.url), [
    "/api/v1/meetings?status=scheduled&limit=2", "/api/v1/meetings?status=scheduled&limit=2&cursor=a+b",
  ]);
});

test("a note can be read as Markdown", async () => {
  const { baseUrl, sent } = await scripted(answer(200, "# Notulen", { "content-type": "text/markdown; charset=utf-8" }));
  const text: string = await new Client({ baseUrl, apiKey }).get("/notes/{id}", { path: { id: "n" }, query: { format: "markdown" } });
  assert.deepEqual([text, sent[0]?.url], ["# Notulen", "/api/v1/notes/n?format=markdown"]);
});

test("an id cannot leave its place in the path", async () => {
  const { baseUrl, sent } = await scripted(answer(404, refusal("not_found")));
  const client = new Client({ baseUrl, apiKey });
  await assert.rejects(client.get("/meetings/{id}", { path: { id: "../me?x=1" } }), ApiError);
  assert.equal(sent[0]?.url, "/api/v1/meetings/..%2Fme%3Fx%3D1");
  await assert.rejects(client.get("/meetings/{id}", { path: { id: "" } }), TypeError);
  for (const id of [".", ".."]) await assert.rejects(client.get("/meetings/{id}", { path: { id } }), TypeError);
});

test("an answer that is not of the API is an error, and is not believed", async () => {
  for (const each of [answer(200, "<html>"), answer(404, "<html>"), answer(403, { error: "no" }), answer(302, "", { location: "https://e.example" })]) {
    const { baseUrl } = await scripted(each);
    await assert.rejects(new Client({ baseUrl, apiKey, maxAttempts: 1 }).get("/me"), ConnectionError);
  }
});

test("an answer that does not come ends the attempt", async () => {
  const { baseUrl, sent } = await scripted(() => undefined, answer(200, { id: "a" }));
  const account = await new Client({ baseUrl, apiKey, timeoutMs: 200 }).get("/me");
  assert.equal((account as unknown as { id: string }).id, "a");
  assert.equal(sent.length, 2);
});

test("an attempt ends with the total time", async () => {
  const { baseUrl } = await scripted(() => undefined);
  const startedAt = Date.now();
  await assert.rejects(new Client({ baseUrl, apiKey, timeoutMs: 5_000, maxTotalMs: 300 }).get("/me"), ConnectionError);
  assert.ok(Date.now() - startedAt < 2_000);
});

test("a redirect is not followed, and not asked for again", async () => {
  const elsewhere = await scripted(answer(200, { id: "a" }));
  const { baseUrl, sent } = await scripted(answer(307, "", { location: `${elsewhere.baseUrl}/me` }));
  const error = await new Client({ baseUrl, apiKey, maxAttempts: 2 }).get("/me").catch((e: unknown) => e);
  assert.ok(error instanceof ConnectionError);
  assert.deepEqual([error.status, sent.length, elsewhere.sent.length], [307, 1, 0]);
});

test("an idempotency key that cannot be sent is refused before anything is sent", async () => {
  const { baseUrl, sent } = await scripted(answer(201, { id: "m" }));
  for (const idempotencyKey of ["", "a b", "kl\u00fc", "a\n", "k".repeat(256)]) {
    await assert.rejects(new Client({ baseUrl, apiKey }).post("/meetings", { body: wanted, idempotencyKey }), TypeError);
  }
  assert.equal(sent.length, 0);
});

test("a caller may stop a call and its waits", async () => {
  const { baseUrl } = await scripted(answer(503, refusal("service_unavailable"), { "retry-after": "30" }));
  const stop = new AbortController();
  const running = new Client({ baseUrl, apiKey }).get("/me", { signal: stop.signal });
  setTimeout(() => stop.abort(new Error("enough")), 50);
  await assert.rejects(running, /enough/);
});

test("the key is sent in the clear to this machine alone", () => {
  assert.throws(() => new Client({ baseUrl: "http://meet.example.com", apiKey }), /https/);
  new Client({ baseUrl: "http://meet.example.com", apiKey, allowHttp: true });
  assert.throws(() => new Client({ baseUrl: "https://meet.example.com", apiKey: " key\n" }), TypeError);
});

test("the address has nothing but a host and a path", () => {
  for (const rest of ["u:p@meet.example.com", "meet.example.com/?a=1", "meet.example.com/#a", "meet.example.com/api/v1", "meet.example.com/api/v1/"]) {
    assert.throws(() => new Client({ baseUrl: `https://${rest}`, apiKey }), TypeError);
  }
});

test("the key shows in no text of the client", () => {
  const client = new Client({ baseUrl: "https://meet.example.com", apiKey });
  assert.ok(!JSON.stringify(client).includes(apiKey) && !String(client).includes(apiKey));
});

export async function types(client: Client): Promise<void> {
  const account: Account = await client.get("/me");
  const nothing: undefined = await client.delete("/webhooks/{id}", { path: { id: "w" } });
  await client.patch("/webhooks/{id}", { path: { id: "w" }, body: { is_active: false } });
  for await (const event of client.pages("/events")) if (event.type === "meeting.created") String(event.data?.title);
  // @ts-expect-error no such path
  await client.get("/meeting");
  // @ts-expect-error the body is missing
  await client.post("/meetings");
  // @ts-expect-error the title is missing
  await client.post("/meetings", { body: { date: "2027-01-01", start_time: "09:00", pricing_tier_id: "t" } });
  // @ts-expect-error the id is missing
  await client.get("/meetings/{id}");
  // @ts-expect-error no such status
  await client.get("/meetings", { query: { status: "maybe" } });
  // @ts-expect-error no list
  client.pages("/me");
  // @ts-expect-error the path has no such method
  await client.delete("/me");
  void [account, nothing];
}

/** Built with `exactOptionalPropertyTypes`, which callers may set, too: arguments may be undefined, answers are exact. */
export async function undefinedArguments(client: Client, given: { key?: string }, url: string): Promise<void> {
  const [status, text, signal] = [process.env.STATUS as "ended" | undefined, process.env.TEXT, undefined as AbortSignal | undefined];
  await client.get("/meetings", { query: { status }, signal });
  client.pages("/meetings", { query: status && { status }, path: undefined });
  await client.get("/me", status && {});
  await client.post("/meetings", { body: { ...wanted, description: text }, idempotencyKey: given.key });
  await client.patch("/webhooks/{id}", { path: { id: "w" }, body: { event_types: status && ["meeting.ended"], description: text } });
  new Client({ baseUrl: url, apiKey, timeoutMs: undefined, fetch: undefined, allowHttp: undefined, maxAttempts: undefined, maxTotalMs: undefined });
  const hook: WebhookWithSecret = await client.post("/webhooks", { body: { url, event_types: ["webhook.test"], description: text } });
  // @ts-expect-error an answer's secret is a text or not there
  const exact: typeof hook = { ...hook, secret: undefined };
  // @ts-expect-error a required field is given
  await client.post("/meetings", { body: { ...wanted, title: text } });
  // @ts-expect-error the id of a path is given
  await client.get("/meetings/{id}", { path: { id: text } });
  // @ts-expect-error a list has no undefined items, which JSON would make null
  await client.patch("/webhooks/{id}", { path: { id: "w" }, body: { event_types: [undefined] } });
  void exact;
}
