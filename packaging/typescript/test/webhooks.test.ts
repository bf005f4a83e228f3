import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { SignatureRejected, verifyWebhook } from "../src/index.js";

const secret = "whsec_" + Buffer.alloc(32, 7).toString("base64");
const nowS = 1_795_260_783;
const body = JSON.stringify({ id: "e", type: "meeting.created", created_at: "2026-11-21T08:13:03Z", api_version: "2026-01-01", data: { title: "Rapat é" } });

function signed(text: string, at: number = nowS, key: string = secret): string {
  return `t=${at},v1=${createHmac("sha256", key).update(`${at}.${text}`).digest("hex")}`;
}

test("a signed delivery is read, as text or bytes", async () => {
  for (const raw of [body, new TextEncoder().encode(body)]) {
    const event = await verifyWebhook(secret, signed(body), raw, { nowS });
    assert.ok(event.type === "meeting.created");
    const title: string = event.data.title;
    assert.equal(title, "Rapat é");
  }
});

test("during a rotation either secret may have signed, and other versions are passed by", async () => {
  const old = "whsec_" + Buffer.alloc(32, 8).toString("base64");
  const several = `${signed(body, nowS, "whsec_other")},${signed(body, nowS, old).split(",")[1]},v2=abc`;
  assert.equal((await verifyWebhook([secret, old], several, body, { nowS })).id, "e");
});

test("what is not authentic is rejected", async () => {
  const rejected: [header: string | undefined, text: string][] = [
    [undefined, body], ["", body], ["t=1", body], [`t=${nowS},v1=00`, body], [`t=${nowS},t=${nowS},${signed(body).split(",")[1]}`, body],
    [signed(body), body.replace("Rapat", "rapat")], [signed(body, nowS, secret + "="), body], [signed(body, nowS - 301), body],
    [signed(body, nowS + 301), body], [signed(body).replace(String(nowS), String(nowS + 1)), body],
    [`t=${nowS}${`,v1=${"0".repeat(64)}`.repeat(17)}`, body],
  ];
  for (const [header, text] of rejected) await assert.rejects(verifyWebhook(secret, header, text, { nowS }), SignatureRejected, header);
  await assert.rejects(verifyWebhook(secret, signed(body), body, { nowS: NaN }), SignatureRejected);
});

test("a secret that is none is refused: anybody could sign", async () => {
  for (const none of ["", [], [""], ["whsec_"], ["secret"]]) {
    await assert.rejects(verifyWebhook(none, signed(body, nowS, "x"), body, { nowS }), TypeError);
  }
});

test("a signed body that is no event is refused", async () => {
  for (const text of ["null", "[]", "{}", "{", '{"id":1,"type":"x"}']) await assert.rejects(verifyWebhook(secret, signed(text), text, { nowS }), TypeError);
});
