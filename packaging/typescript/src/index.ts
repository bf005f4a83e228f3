export { Client, type Answer, type Arguments, type CallOptions, type ClientOptions, type ListPath, type PathOf } from "./client.js";
export { ApiError, ConnectionError, type Problem } from "./errors.js";
export { SignatureRejected, verifyWebhook, type WebhookEvent } from "./webhooks.js";
export type * from "./openapi.js";
