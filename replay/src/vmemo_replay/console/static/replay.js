// Replays a file or the bank, shows the progress and then the report.
"use strict";

const replayForm = document.getElementById("replay-form");
const part = (id) => document.getElementById(id);
let running = null;

// Yields the events of a stream as [name, data].
async function* replayEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    let from = Math.max(0, buffer.length - 3), end;
    buffer += value;
    while ((end = buffer.indexOf("\r\n\r\n", from)) >= 0) {
      const lines = buffer.slice(0, end).split("\r\n");
      buffer = buffer.slice(end + 4);
      from = 0;
      const name = lines.find((line) => line.startsWith("event: "));
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (name) yield [name.slice(7), JSON.parse(data)];
    }
  }
}

function showStep(text, done, of) {
  part("step").textContent = text;
  if (of) part("bar").setAttribute("max", of);
  if (of) part("bar").setAttribute("value", done);
  else part("bar").removeAttribute("value");
}

function fail(text) {
  part("failed").textContent = text;
  part("failed").hidden = false;
}

async function keepCases(yaml) {
  const body = new URLSearchParams({ yaml, csrf_token: replayForm.elements.csrf_token.value });
  const response = await fetch(`${replayForm.dataset.path}/cases/file`, { method: "POST", body });
  if (response.ok) location.assign(`${replayForm.dataset.path}/cases`);
  else fail(await textOf(response));
}

async function textOf(response) {
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  return (page.querySelector("main") || page.body).textContent.replace(/\s+/g, " ").trim().slice(0, 400);
}

function show(html, report, bank) {
  const view = part("replay");
  view.innerHTML = html; // Markup of this server, in which texts are escaped.
  const options = bank ? { bank } : {};
  if (bank && replayForm.dataset.write === "true") options.keep = keepCases;
  view.querySelector("details").open = false;
  showReport(view, report, options);
  view.focus();
  view.scrollIntoView({ block: "start" });
}

async function start(path, body, label, bank) {
  if (!replayForm.reportValidity() || running) return;
  running = new AbortController();
  part("failed").hidden = true;
  part("replay").replaceChildren();
  part("running").hidden = false;
  showStep(`Sending ${label}…`);
  part("stop").focus();
  for (const each of replayForm.elements) each.disabled = true;
  const headers = { "x-csrf-token": replayForm.elements.csrf_token.value };
  if (body) headers["content-type"] = "application/octet-stream";
  const query = new URLSearchParams({ turns: replayForm.elements.turns.value, ...(body ? { name: body.name } : {}) });
  try {
    const address = `${replayForm.dataset.path}/replay/${path}?${query}`;
    const response = await fetch(address, { method: "POST", headers, body, signal: running.signal });
    if (!response.ok || !response.headers.get("content-type").startsWith("text/event-stream")) {
      fail(response.redirected ? "The session has ended. Reload the page to sign in again." : await textOf(response));
      return;
    }
    let ended = false;
    for await (const [name, data] of replayEvents(response)) {
      if (name === "reading") showStep(`Reading ${label}…`);
      else if (name === "progress") showStep(`Replaying ${label}: turn ${data.done} of ${data.of}`, data.done, data.of);
      else if (name === "problem") fail(data.text);
      else if (name === "report") show(data.html, data.report, bank);
      ended = ended || name === "problem" || name === "report";
    }
    if (!ended) fail("The server ended the replay. Try again.");
  } catch (error) {
    if (error.name !== "AbortError") fail("The server does not answer. Try again.");
  } finally {
    running = null;
    part("running").hidden = true;
    for (const each of replayForm.elements) each.disabled = false;
  }
}

async function choose(file) {
  if (!file || running) return;
  if (file.size > Number(replayForm.dataset.mostBytes)) {
    fail(`${file.name} has ${file.size.toLocaleString("en")} bytes, too many for this page. Use vmemo replay on your machine.`);
    return;
  }
  await start("upload", file, file.name, null);
}

const drop = replayForm.querySelector(".drop");
for (const name of ["dragenter", "dragover"]) {
  addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
}
addEventListener("dragleave", (event) => { if (!event.relatedTarget) drop.classList.remove("over"); });
addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  choose(event.dataTransfer.files[0]);
});
part("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  choose(file);
  event.target.value = "";
});
part("own").addEventListener("click", () => start("bank", null, "this bank", replayForm.dataset.bank));
part("sample").addEventListener("click", () => start("sample", null, "the sample conversation", null));
part("stop").addEventListener("click", () => { if (running) running.abort(); });
replayForm.addEventListener("submit", (event) => event.preventDefault());
addEventListener("beforeunload", (event) => { if (running) event.preventDefault(); });
