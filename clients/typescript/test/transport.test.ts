// Retries, timeouts and unusual responses, against a scripted HTTP server.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { after, before, beforeEach, test } from "node:test";

import { Vmemo, VmemoError, type VmemoOptions } from "../src/index.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

let script: Handler[] = [];
let requests: IncomingMessage[] = [];
const server = createServer((request, response) => {
  requests.push(request);
  const next = script.shift() ?? answer({});
  request.resume().on("end", () => next(request, response));
});

function client(options: VmemoOptions = {}): Vmemo {
  return new Vmemo({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/base/`, ...options });
}

function answer(body: unknown, status = 200, headers: Record<string, string> = {}): Handler {
  return (_, response) => response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(
    typeof body === "string" ? body : JSON.stringify(body),
  );
}

function problem(status: number, code: string, headers: Record<string, string> = {}): Handler {
  return answer({ type: `urn:vmemo:problem:${code}`, status, detail: "Later.", request_id: "r1" }, status, headers);
}

function chunks(...parts: (string | Uint8Array)[]): Handler {
  return async (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const part of parts) await new Promise((sent) => response.write(part, sent));
    response.end();
  };
}

const cut: Handler = (request) => request.socket.destroy();
const silent: Handler = () => undefined;
const retained = answer({ stored: [], problem: null });

before(async () => once(server.listen(0, "127.0.0.1"), "listening"));
after(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  script = [];
  requests = [];
});

test("a busy server is asked again, with the same idempotency key", async () => {
  script = [problem(503, "ServerBusy", { "Retry-After": "0" }), cut, problem(409, "RequestInProgress"), retained];
  await client().retain("Ana plays the cello.");
  const keys = requests.map((request) => request.headers["idempotency-key"]);
  assert.equal(keys.length, 4);
  assert.match(keys[0] as string, /^[0-9a-f]{32}$/);
  assert.equal(new Set(keys).size, 1);
});

test("reads are repeated without an idempotency key", async () => {
  script = [problem(429, "RateLimited"), cut, answer({ hits: [] })];
  await client().recall("tea");
  assert.deepEqual(requests.map((request) => request.headers["idempotency-key"]), [undefined, undefined, undefined]);
  assert.equal(requests[0]?.url, "/base/v1/banks/default/recall");
});

test("errors that do not pass are not repeated", async () => {
  for (const status of [400, 404, 500, 502]) {
    script = [problem(status, "LLMFailed")];
    await assert.rejects(client().retain("tea"), { status, code: "LLMFailed", detail: "Later.", requestId: "r1" });
  }
  script = [problem(503, "ServerBusy", { "Retry-After": "31" })];
  await assert.rejects(client().recall("tea"), { status: 503, retryAfter: 31, retryable: true });
  script = [problem(503, "ServerBusy")];
  await assert.rejects(client({ retries: 0 }).recall("tea"), { status: 503 });
  assert.equal(requests.length, 6);
});

test("a broken stream is not requested again", async () => {
  script = [cut];
  const broken = client().reflectStream("tea").next();
  await assert.rejects(broken, { name: "VmemoError", code: "ConnectionFailed", status: 0 });
  script = [chunks('event: delta\ndata: {"text":"a"}\n\n')];
  const ended = client().reflectStream("tea");
  assert.deepEqual((await ended.next()).value, { type: "delta", text: "a" });
  await assert.rejects(ended.next(), { code: "ConnectionFailed" });
  assert.equal(requests.length, 2);
});

test("events are parsed wherever the stream is cut into chunks", async () => {
  const text = [
    ': ping\r\n\r\nevent: delta\r\ndata: {"text":"お茶 🍵"}\r\n\r\n',
    'event: retracted\rdata: {"reason":"x"}\r\r',
    'id: 1\nevent:answer\ndata:{"query":\ndata: "q"}\n\n',
  ].join("");
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 7, bytes.length]) {
    const count = Math.ceil(bytes.length / size);
    script = [chunks(...Array.from({ length: count }, (_, at) => bytes.slice(at * size, (at + 1) * size)))];
    const events = [];
    for await (const event of client().reflectStream("q")) events.push(event);
    assert.deepEqual(events, [
      { type: "delta", text: "お茶 🍵" },
      { type: "retracted", reason: "x" },
      { type: "answer", answer: { query: "q" } },
    ]);
  }
});

test("a problem inside a stream is thrown", async () => {
  script = [chunks('event: problem\ndata: {"type":"urn:vmemo:problem:LLMFailed","status":502,"detail":"No."}\n\n')];
  await assert.rejects(client().reflectStream("tea").next(), { status: 502, code: "LLMFailed", detail: "No." });
});

test("a retain whose facts could not be derived throws with the ids of the stored messages", async () => {
  const down = { type: "urn:vmemo:problem:LLMUnavailable", status: 503, detail: "Down." };
  script = [answer({ stored: ["m1"], problem: down }, 202)];
  await assert.rejects(client().retain("tea"), { code: "LLMUnavailable", status: 503, stored: ["m1"] });
  assert.equal(requests.length, 1);
});

test("a silent server times out", async () => {
  script = [silent];
  await assert.rejects(client({ timeout: 200 }).recall("tea"), { code: "Timeout", status: 0 });
  script = [(_, response) => response.writeHead(200).write(": nothing\n")];
  await assert.rejects(client().reflectStream("tea", {}, { timeout: 200 }).next(), { code: "Timeout" });
  assert.equal(requests.length, 2);
});

test("a call is aborted while it waits for the server or for its next attempt", async () => {
  script = [silent];
  await assert.rejects(client().recall("tea", {}, { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
  script = [problem(503, "ServerBusy", { "Retry-After": "20" })];
  await assert.rejects(client().recall("tea", {}, { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
});

test("responses that are not those of a vmemo server are reported", async () => {
  script = [answer("<html>", 200, { "Content-Type": "text/html" })];
  await assert.rejects(client().recall("tea"), { code: "InvalidResponse" });
  script = [answer("<html>", 404)];
  await assert.rejects(client().recall("tea"), { status: 404, code: "HttpError" });
  script = [answer("", 307, { Location: "/elsewhere" })];
  await assert.rejects(client({ retries: 0 }).recall("tea"), { code: "ConnectionFailed" });
});

test("names that a URL would drop, and keys that a header can't hold, are refused", async () => {
  for (const name of ["", ".", ".."]) {
    await assert.rejects(client({ bank: name }).deleteBank(), { code: "InvalidInput" });
  }
  await assert.rejects(client().why(".."), { code: "InvalidInput" });
  assert.throws(() => client({ key: "schlüssel" }), { code: "InvalidInput" });
  assert.throws(() => client({ key: "vmemo_…" }), { code: "InvalidInput", message: /placeholder/ });
  await assert.rejects(client().retain("tea", {}, { idempotencyKey: "a\nb" }), { code: "InvalidInput" });
  assert.equal(requests.length, 0);
});

test("neither the client nor an error shows the key", async () => {
  const secretive = client({ key: "vmemo_secret", retries: 0 });
  script = [cut];
  const error = await secretive.recall("tea").catch((thrown: unknown) => thrown);
  assert.ok(error instanceof VmemoError);
  assert.ok(!inspect([secretive, error], { depth: 9, showHidden: true }).includes("secret"));
  assert.equal(requests[0]?.headers.authorization, "Bearer vmemo_secret");
});
