/** One server-sent event. */
export interface ServerSentEvent {
  event: string;
  data: string;
}

/** Yield the events of a stream; `onChunk` is called whenever something arrives, comments included. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onChunk: () => void,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  let event = "message";
  let data: string[] = [];
  for await (const line of readLines(body, onChunk)) {
    if (line === "") {
      if (data.length > 0) yield { event, data: data.join("\n") };
      event = "message";
      data = [];
      continue;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
}

async function* readLines(body: ReadableStream<Uint8Array>, onChunk: () => void): AsyncGenerator<string, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onChunk();
      const text = decoder.decode(value, { stream: true });
      rest += text;
      // Only a chunk with a line break is worth splitting, so that a long line is not searched again with each chunk.
      if (!/[\r\n]/.test(text)) continue;
      // A carriage return at the end may be the first half of a line break.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
