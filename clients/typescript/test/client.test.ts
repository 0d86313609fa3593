// Every verb against a running server: VMEMO_URL and VMEMO_KEY, a key with admin permission.
import assert from "node:assert/strict";
import { before, test } from "node:test";

import { type ReflectEvent, Vmemo, VmemoError } from "../src/index.ts";

const { VMEMO_URL: url, VMEMO_KEY: key } = process.env;
const memory = new Vmemo({ url, key, bank: "team/Ana ☕ 100%" });
const CHAT = [
  { content: "I moved to Lisbon in May.", speaker: "Ana", document: "chat" },
  { content: "私は京都でお茶を飲みました。🍵", speaker: "葵", document: "日記" },
];

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

function fails(status: number, code: string) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof VmemoError);
    assert.deepEqual([error.status, error.code], [status, code]);
    assert.ok(error.detail);
    assert.equal(error.message, error.detail);
    assert.ok(error.requestId);
    return true;
  };
}

before(async () => {
  const retained = await memory.retain(CHAT);
  assert.equal(retained.stored.length, 2);
  assert.equal(retained.pending, 0);
});

test("the server is healthy and ready", async () => {
  assert.deepEqual(await memory.health(), { status: "ok" });
  assert.deepEqual(await memory.ready(), { status: "ok" });
});

test("retain accepts text, a message or a list, and recall finds them", async () => {
  const bank = memory.bank("retain");
  assert.equal((await bank.retain("Tom keeps bees.")).stored.length, 1);
  assert.equal((await bank.retain({ role: "user", content: "Tom sells honey." })).derived.length, 1);
  const said = { content: "Tom's bees live in Porto.", timestamp: new Date("2024-03-01T12:00:00Z"), tags: ["bees"] };
  await bank.retain(["Tom has a truck.", said]);
  const found = await bank.recall("Where do Tom's bees live?", { max_tokens: 100, tags: ["bees"] });
  assert.deepEqual(found.hits.map((hit) => hit.fact.mentioned_at), ["2024-03-01T12:00:00Z"]);
  assert.ok(found.tokens <= 100);
});

test("retain accepts messages of chat APIs, and skips those without text", async () => {
  interface ToolCall {
    id: string;
    type: "function";
  }
  const calls: ToolCall[] = [{ id: "1", type: "function" }];
  const bank = memory.bank("chat");
  const retained = await bank.retain([
    { role: "developer", content: "Be brief." },
    {
      role: "user",
      name: "Ana",
      content: [
        { type: "text", text: "I keep bees" },
        { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
        { type: "text", text: "in Porto." },
      ],
    },
    { role: "assistant", content: null, tool_calls: calls },
    { role: "tool", content: "Noted.", tool_call_id: "1" },
  ]);
  assert.deepEqual(retained.skipped, [{ what: "message 3", reason: "it has no text" }]);
  assert.deepEqual((await all(bank.messages())).map(({ role, speaker, content }) => [role, speaker, content]), [
    ["system", null, "Be brief."],
    ["user", "Ana", "I keep bees\nin Porto."],
    ["tool", null, "Noted."],
  ]);
});

test("one fact can be read, updated, pinned and deleted", async () => {
  const bank = memory.bank("facts");
  const [id = ""] = (await bank.retain({ content: "Tom lives in Porto.", ttl: 3600 })).derived;
  const newer = await bank.update(id, "Tom lives in Braga.", "he moved");
  assert.equal((await bank.get(newer.id)).reason, "he moved");
  assert.deepEqual((await all(bank.history(id))).map((fact) => fact.id), [id, newer.id]);
  const since = await bank.update(newer.id, "Tom lives in Braga.", { valid_at: new Date("2024-03-01T00:00:00Z") });
  assert.equal(new Date(since.valid_at ?? 0).toISOString(), "2024-03-01T00:00:00.000Z");
  await assert.rejects(bank.pin(newer.id), fails(422, "InvalidInput"));
  assert.deepEqual([(await bank.pin(since.id)).pinned, (await bank.pin(since.id, false)).pinned], [true, false]);
  assert.equal((await bank.delete(since.id)).messages, 1);
  await assert.rejects(bank.get(newer.id), fails(404, "NotFound"));
});

test("a retain that does not wait returns with pending messages, and process derives their facts", async () => {
  const bank = memory.bank("later");
  const retained = await bank.retain("Eva paints boats.", { wait: false });
  assert.deepEqual([retained.stored.length, retained.derived.length], [1, 0]);
  await all(bank.jobs());
  await bank.process();
  assert.equal((await bank.status()).pending, 0);
});

test("text that is not ASCII returns unchanged", async () => {
  assert.equal((await memory.status()).bank, "team/Ana ☕ 100%");
  const found = await memory.recall("京都でお茶");
  assert.ok(found.hits.some((hit) => hit.fact.text.includes("お茶を飲みました。🍵")));
  assert.deepEqual((await all(memory.messages({ document: "日記" }))).map((message) => message.speaker), ["葵"]);
});

test("context is one text within its budget", async () => {
  const context = await memory.context("Where does Ana live?", { user: "Ana", max_tokens: 300 });
  assert.match(context.text, /Lisbon/);
  assert.ok(context.tokens <= 300);
  assert.deepEqual((await memory.context()).relevant, []);
});

test("recall and context are text if the format is that of prompts", async () => {
  assert.match(await memory.recallPrompt("Where does Ana live?", { max_tokens: 100 }), /Lisbon/);
  const parts = { query: { format: "prompt" as const }, body: { user: "Ana" } };
  const text: string = await memory.request("POST /v1/banks/{bank}/context", parts);
  assert.equal(text, (await memory.context(null, { user: "Ana" })).text);
});

test("retrieve returns as many facts as requested", async () => {
  assert.equal((await memory.retrieve("Lisbon", { top_k: 1 })).hits.length, 1);
});

test("reflect answers with citations", async () => {
  const answer = await memory.reflect("Where did Ana move?");
  assert.match(answer.text, /Lisbon/);
  assert.ok(answer.citations.length > 0);
});

test("a streamed reflection ends with the complete answer", async () => {
  const events = await all(memory.reflectStream("Where did Ana move?"));
  const last = events.at(-1);
  assert.ok(last?.type === "answer");
  const deltas = events.filter((event): event is ReflectEvent & { type: "delta" } => event.type === "delta");
  assert.ok(deltas.length > 0);
  assert.ok(last.answer.text.startsWith(deltas.map((delta) => delta.text).join("")));
  assert.equal(last.answer.query, "Where did Ana move?");
});

test("a streamed reflection can be left early and aborted", async () => {
  for await (const event of memory.reflectStream("Where did Ana move?")) {
    assert.ok(event.type);
    break;
  }
  const controller = new AbortController();
  const aborted = (async () => {
    for await (const _ of memory.reflectStream("Where did Ana move?", {}, { signal: controller.signal })) {
      controller.abort();
    }
  })();
  await assert.rejects(aborted, { name: "AbortError" });
});

test("lists page through all records", async () => {
  const facts = await all(memory.facts({ limit: 1 }));
  assert.deepEqual(facts.map((fact) => fact.id), (await all(memory.facts())).map((fact) => fact.id));
  assert.equal(facts.length, 2);
  assert.equal((await all(memory.messages({ limit: 1 }))).length, 2);
  assert.ok((await all(memory.episodes())).length > 0);
  assert.ok((await all(memory.entities())).some((entity) => entity.name === "Lisbon"));
  assert.deepEqual(await all(memory.opinions()), []);
  assert.deepEqual(await all(memory.observations({ entity: "Lisbon" })), []);
  const audited = await all(memory.list("GET /v1/audit", { query: { limit: 1 } }));
  assert.equal(new Set(audited.map((entry) => entry.id)).size, audited.length);
});

test("why returns the messages behind a fact", async () => {
  const [fact] = (await memory.retrieve("Lisbon", { top_k: 1 })).hits.map((hit) => hit.fact);
  assert.ok(fact);
  assert.equal((await memory.why(fact.id)).messages[0]?.content, "I moved to Lisbon in May.");
});

test("forget deletes a document with its facts", async () => {
  const bank = memory.bank("forget");
  await bank.retain([{ content: "Max likes tea.", document: "a" }, { content: "Max likes rum.", document: "b" }]);
  assert.equal((await bank.forget({ document: "b" })).messages, 1);
  assert.deepEqual((await all(bank.messages())).map((message) => message.document), ["a"]);
});

test("banks are created, configured, listed, exported and deleted", async () => {
  const bank = memory.bank("kept");
  assert.equal((await bank.createBank({ name: "Mira" })).messages, 0);
  assert.equal((await bank.setProfile({ name: "Mira", disposition: { skepticism: 5 } })).disposition?.skepticism, 5);
  assert.equal((await bank.profile()).name, "Mira");
  const exported = await bank.request("GET /v1/banks/{bank}/export");
  await memory.bank("copied").request("POST /v1/banks/{bank}/import", { body: exported });
  assert.equal((await memory.bank("copied").profile()).name, "Mira");
  assert.deepEqual(await all(memory.banks({ prefix: "kep" })), ["kept"]);
  await bank.deleteBank();
  assert.deepEqual(await all(memory.banks({ prefix: "kep" })), []);
});

test("a write with the same idempotency key takes effect once", async () => {
  const bank = memory.bank("once");
  const write = () => bank.retain({ content: "Ida rows.", document: null }, {}, { idempotencyKey: "ida-1" });
  assert.deepEqual(await write(), await write());
  assert.equal((await bank.status()).messages, 1);
  const other = bank.retain("Ida swims.", {}, { idempotencyKey: "ida-1" });
  await assert.rejects(other, fails(422, "IdempotencyKeyReused"));
});

test("errors have the server's status, code and detail", async () => {
  await assert.rejects(new Vmemo({ url }).recall("tea"), fails(401, "Unauthenticated"));
  await assert.rejects(new Vmemo({ url, key: "vmemo_wrong" }).status(), fails(401, "Unauthenticated"));
  await assert.rejects(memory.bank("nobody").recall("tea"), fails(404, "NotFound"));
  await assert.rejects(all(memory.bank("nobody").facts()), fails(404, "NotFound"));
  await assert.rejects(memory.recall(""), fails(422, "InvalidInput"));
  await assert.rejects(memory.forget({}), fails(422, "InvalidInput"));
  await assert.rejects(all(memory.reflectStream("", {})), fails(422, "InvalidInput"));
  await assert.rejects(all(memory.bank("nobody").reflectStream("tea")), fails(404, "NotFound"));
});

test("an aborted call rejects with the reason of the signal", async () => {
  const reason = new Error("the user left");
  await assert.rejects(memory.recall("tea", {}, { signal: AbortSignal.abort(reason) }), reason);
  const controller = new AbortController();
  const pending = memory.recall("tea", {}, { signal: controller.signal });
  controller.abort(reason);
  await assert.rejects(pending, reason);
});
