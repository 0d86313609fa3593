import { Vmemo, VmemoError } from "vmemo";

const memory = new Vmemo({
  url: process.env.VMEMO_URL ?? "http://127.0.0.1:8000",
  key: process.env.VMEMO_KEY,
  bank: "traveller",
});

await memory.retain({ content: "I moved to Lisbon in May, and I get seasick.", speaker: "Ana" });

const found = await memory.recall("Where does Ana live?", { max_tokens: 500 });
for (const hit of found.hits) console.log(hit.fact.text);

for await (const event of memory.reflectStream("Should Ana take the ferry?")) {
  if (event.type === "delta") process.stdout.write(event.text);
  if (event.type === "answer") console.log(`\nCited facts: ${event.answer.citations.length}`);
}

try {
  await memory.bank("nobody").recall("anything");
} catch (error) {
  if (error instanceof VmemoError) console.log(error.status, error.code, error.detail);
}
