// Streams an answer into the page. Text of the stream is only ever text; the final answer is markup of this server.
"use strict";

const form = document.getElementById("chat");
const turns = document.getElementById("turns");

function add(tag, className, text) {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

// Yields the events of a stream as [name, data].
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer = (buffer + value).replaceAll("\r\n", "\n");
    let end;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const lines = buffer.slice(0, end).split("\n");
      buffer = buffer.slice(end + 2);
      const name = lines.find((line) => line.startsWith("event:"));
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, ""));
      if (name) yield [name.slice(6).trim(), data.join("\n")];
    }
  }
}

function show(turn, name, data) {
  const stream = turn.querySelector(".stream");
  if (name === "delta") stream.textContent += data;
  else if (name === "retracted") stream.textContent = "";
  else if (name === "lookup") turn.querySelector(".status").textContent = `Looking up: ${data}`;
  else if (name === "problem") turn.replaceChildren(add("p", "problem", data));
  else if (name === "answer") {
    turn.innerHTML = data;
    htmx.process(turn);
  }
}

async function ask() {
  const body = new URLSearchParams(new FormData(form));
  const turn = document.createElement("div");
  turn.className = "turn";
  turn.append(add("p", "status", "Thinking…"), add("div", "text prose stream", ""));
  turns.append(add("p", "question", body.get("query")), turn);
  const button = form.querySelector("button");
  button.disabled = true;
  form.elements.query.value = "";
  turn.scrollIntoView({ block: "nearest" });
  try {
    const headers = { accept: "text/event-stream", "content-type": "application/x-www-form-urlencoded" };
    const response = await fetch(form.action, { method: "POST", headers, body });
    if (!response.ok) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const main = page.querySelector("main") || page.body;
      turn.replaceChildren(add("p", "problem", main.innerText.trim().slice(0, 400)));
      return;
    }
    for await (const [name, data] of events(response)) show(turn, name, data);
  } catch {
    turn.replaceChildren(add("p", "problem", "The server does not answer. Try again."));
  } finally {
    button.disabled = false;
    form.elements.query.focus();
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
