// The official client of the Model Context Protocol connects by OAuth, knowing the URL of the agent interface alone.
import assert from "node:assert/strict";
import { test } from "node:test";

import { UnauthorizedError, type OAuthClientProvider } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { OAuthClientInformationMixed, OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";

const { MEETCORE_BASE_URL: baseUrl = "", MEETCORE_DASHBOARD_URL: link = "" } = process.env;
const redirectUrl = "http://127.0.0.1:3000/callback";

/** A member's browser: it keeps cookies, and sends the forms of pages. */
class Browser {
  readonly #cookies = new Map<string, string>();

  async open(url: string, form?: Record<string, string>): Promise<Response> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const body = form && { method: "POST", body: new URLSearchParams(form) };
    const headers = { cookie, origin: baseUrl };
    const answer = await fetch(new URL(url, baseUrl), { ...body, headers, redirect: "manual" });
    for (const set of answer.headers.getSetCookie()) {
      const [name = "", value = ""] = (set.split(";")[0] ?? "").split("=");
      this.#cookies.set(name, value);
    }
    return answer;
  }

  /** Send a form of a page, with its hidden fields and its checked boxes; return where the answer leads. */
  async send(path: string, page: string, form: Record<string, string> = {}): Promise<string> {
    const text = await (await this.open(page)).text();
    const hidden = [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)].map((found) => [found[1], found[2]]);
    const checked = [...text.matchAll(/name="(scope:[a-z:]+)" checked/g)].map((found) => [found[1], "on"]);
    const answer = await this.open(path, { ...Object.fromEntries([...hidden, ...checked]), ...form });
    assert.equal(answer.status, 303, await answer.text());
    return answer.headers.get("location") ?? "";
  }
}

/** What the client keeps, in memory. */
class Kept implements OAuthClientProvider {
  readonly redirectUrl = redirectUrl;
  readonly clientMetadata = { client_name: "Agent in TypeScript", redirect_uris: [redirectUrl], token_endpoint_auth_method: "none" };
  authorizeUrl: URL | undefined;
  #client: OAuthClientInformationMixed | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = "";

  state = (): string => "state of a test";
  clientInformation = (): OAuthClientInformationMixed | undefined => this.#client;
  saveClientInformation = (client: OAuthClientInformationMixed): void => void (this.#client = client);
  tokens = (): OAuthTokens | undefined => this.#tokens;
  saveTokens = (tokens: OAuthTokens): void => void (this.#tokens = tokens);
  invalidateCredentials = (): void => void (this.#tokens = undefined);
  redirectToAuthorization = (url: URL): void => void (this.authorizeUrl = url);
  saveCodeVerifier = (verifier: string): void => void (this.#verifier = verifier);
  codeVerifier = (): string => this.#verifier;
}

test("an agent connects by its URL alone, calls a tool, and is refused once its grant is revoked", async () => {
  const browser = new Browser();
  const kept = new Kept();
  await browser.send(link, link);

  const transport = () => new StreamableHTTPClientTransport(new URL(`${baseUrl}/mcp`), { authProvider: kept });
  const first = transport();
  await assert.rejects(new Client({ name: "test", version: "1" }).connect(first as Transport), UnauthorizedError);
  assert.ok(kept.authorizeUrl !== undefined);
  const asked = await browser.open(kept.authorizeUrl.href);
  const page = asked.headers.get("location") ?? "";
  const back = new URL(await browser.send(page, page, { answer: "allow", expires_in_days: "30" }));
  assert.deepEqual([back.searchParams.get("state"), back.searchParams.get("iss")], ["state of a test", baseUrl]);
  await first.finishAuth(back.searchParams.get("code") ?? "");

  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport() as Transport);
  assert.ok((await client.listTools()).tools.some((tool) => tool.name === "create_meeting"));
  const called = await client.callTool({ name: "get_me", arguments: {} });
  assert.notEqual(called.isError, true);

  const keys = await (await browser.open("/dashboard/keys")).text();
  const card = keys.slice(keys.indexOf("Agent in TypeScript"));
  const path = /action="(\/dashboard\/keys\/[0-9a-f-]+\/revoke)"/.exec(card)?.[1] ?? "";
  await browser.send(path, "/dashboard/keys", { confirmed: "" });
  await assert.rejects(client.callTool({ name: "get_me", arguments: {} }), UnauthorizedError);
});
