// Memory as tools of the Vercel AI SDK: npm install ai zod vmemo
import { type LanguageModel, generateText, stepCountIs, tool } from "ai";
import { Vmemo } from "vmemo";
import { z } from "zod";

/** Return the tools that read and write the memory of one user. */
export function memoryTools(memory: Vmemo) {
  return {
    recall: tool({
      description: "Search long-term memory for what is known about the user. Use it before you answer.",
      inputSchema: z.object({ query: z.string().describe("a question or keywords") }),
      execute: async ({ query }, { abortSignal: signal }) => {
        const found = await memory.recall(query, { max_tokens: 1000 }, { signal });
        return found.hits.map(({ fact, status }) => ({ text: fact.text, said: fact.mentioned_at, status }));
      },
    }),
    remember: tool({
      description: "Store something that the user said and that will matter in later conversations.",
      inputSchema: z.object({ text: z.string().describe("a complete sentence") }),
      execute: async ({ text }, { abortSignal: signal }) => {
        await memory.retain({ content: text, role: "user" }, {}, { signal });
        return "stored";
      },
    }),
  };
}

/** Answer a prompt of one user, whose memory is a bank of its own. */
export async function chat(model: LanguageModel, user: string, prompt: string): Promise<string> {
  const memory = new Vmemo({ url: process.env.VMEMO_URL, key: process.env.VMEMO_KEY, bank: `user-${user}` });
  const { text } = await generateText({ model, prompt, tools: memoryTools(memory), stopWhen: stepCountIs(5) });
  return text;
}
