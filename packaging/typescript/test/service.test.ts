// Against a running service: MEETCORE_BASE_URL and MEETCORE_API_KEY are those of `meetcore dev --for-tests`.
import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, Client, verifyWebhook, type WebhookEvent } from "../src/index.js";

const { MEETCORE_BASE_URL: baseUrl = "", MEETCORE_API_KEY: apiKey = "" } = process.env;
const DEADLINE_MS = 20_000;

interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The delivery of an event to the inbox of `meetcore dev`. */
async function delivered(path: string, kind: string): Promise<Received> {
  for (const endsAt = Date.now() + DEADLINE_MS; Date.now() < endsAt; await new Promise((resolve) => setTimeout(resolve, 100))) {
    const { data } = (await (await fetch(`${baseUrl}/inbox.json`)).json()) as { data: Received[] };
    const found = data.find((each) => each.path === path && each.headers["X-Service-Event"] === kind);
    if (found !== undefined) return found;
  }
  throw new Error(`${kind} did not come to ${path}`);
}

test("a meeting is bought once, listed, announced by a signed webhook and cancelled", async () => {
  const client = new Client({ baseUrl, apiKey });
  const [tier] = (await client.get("/pricing-tiers")).data;
  assert.ok(tier !== undefined);
  const before = (await client.get("/credits")).balance;

  const path = `/typescript-${crypto.randomUUID()}`;
  const hook = await client.post("/webhooks", { body: { url: `https://inbox.meetcore.test${path}`, event_types: ["meeting.created"] } });
  const day = new Date(Date.now() + 9 * 86_400_000).toISOString().slice(0, 10);
  const body = { title: "Rapat", date: day, start_time: "09:00", pricing_tier_id: tier.id };
  const idempotencyKey = crypto.randomUUID();
  const made = await client.post("/meetings", { body, idempotencyKey });
  const again = await client.post("/meetings", { body, idempotencyKey });
  assert.equal(again.id, made.id);
  assert.equal((await client.get("/credits")).balance, before - (made.credits_deducted ?? 0));

  const { headers, body: raw } = await delivered(path, "meeting.created");
  const event: WebhookEvent = await verifyWebhook(hook.secret ?? "", headers["X-Service-Signature"], raw);
  assert.ok(event.type === "meeting.created" && event.data.id === made.id);

  const ids: string[] = [];
  for await (const meeting of client.pages("/meetings", { query: { status: "scheduled", limit: 1 } })) ids.push(meeting.id);
  assert.ok(ids.includes(made.id));
  assert.equal((await client.delete("/meetings/{id}", { path: { id: made.id } })).id, made.id);
  assert.equal(await client.delete("/webhooks/{id}", { path: { id: hook.id } }), undefined);
});

test("a refusal of the service is typed by its code", async () => {
  const error = await new Client({ baseUrl, apiKey })
    .post("/meetings", { body: { title: "Rapat", date: "2099-01-01", start_time: "09:00", pricing_tier_id: "no-such-tier" } })
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ApiError && error.problem.code === "not_found");
  assert.deepEqual([error.status, error.attempts], [404, 1]);
});
