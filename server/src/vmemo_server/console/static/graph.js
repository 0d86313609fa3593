// The graph of entities and facts: layout, filters by type of link and by time, and the selected node.
"use strict";

const STYLE_ID = "__________cytoscape_stylesheet";
const COLOURS = { world: "--blue", experience: "--accent", opinion: "--violet", observation: "--amber" };
const LINKS = {
  entity: "--muted", semantic: "--blue", temporal: "--amber", causes: "--red", caused_by: "--red",
  enables: "--accent", prevents: "--red", replaces: "--violet", outdates: "--violet",
};

const element = document.getElementById("graph");
const note = document.getElementById("graph-note");
const panel = document.getElementById("node");
const moment = document.getElementById("moment");
let times = [];

function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Cytoscape would add a style element, which the content security policy forbids; console.css has the same rule.
const placeholder = document.createElement("meta");
placeholder.id = STYLE_ID;
document.head.append(placeholder);

function styles() {
  const ink = token("--ink"), surface = token("--surface");
  const node = (selector, style) => ({ selector, style });
  return [
    node("node", { "background-color": token("--muted"), width: 9, height: 9, "border-width": 1, "border-color": surface, label: "" }),
    node("node[type = 'entity']", {
      "background-color": ink, width: "data(size)", height: "data(size)", label: "data(label)", color: ink,
      "font-size": "data(font)", "font-family": "system-ui, sans-serif", "text-valign": "bottom", "text-margin-y": 3,
      "text-outline-color": surface, "text-outline-width": "data(outline)", "z-index": 2,
    }),
    ...Object.entries(COLOURS).map(([kind, name]) => node(`node[kind = '${kind}']`, { "background-color": token(name) })),
    node("node[?closed]", { "background-opacity": 0.25, "border-color": token("--muted") }),
    node("node:selected", { "border-width": 3, "border-color": token("--focus") }),
    node("node[?focus]", { "background-color": token("--accent") }),
    node("edge", { width: 1, "line-color": token("--line"), "curve-style": "haystack", opacity: 0.75 }),
    ...Object.entries(LINKS).map(([kind, name]) => node(`edge[kind = '${kind}']`, { "line-color": token(name), opacity: kind === "entity" ? 0.35 : 0.6 })),
    node(".crowded", { label: "" }),
    node(".hidden, .later", { display: "none" }),
    node(".far", { opacity: 0.12 }),
  ];
}

// A force layout in time linear in nodes and links: nodes repel those of the neighbouring cells only. The page stays
// responsive between its rounds.
async function layout(nodes, links) {
  const large = nodes.length > 800, ideal = 46, cell = ideal * (large ? 3 : 4), reach = cell * cell, index = new Map(nodes.map((node, place) => [node.id, place]));
  const radius = ideal * Math.sqrt(nodes.length) * 0.6, golden = Math.PI * (3 - Math.sqrt(5));
  const x = new Float64Array(nodes.length), y = new Float64Array(nodes.length);
  nodes.forEach((_, i) => {
    const r = radius * Math.sqrt((i + 0.5) / nodes.length);
    x[i] = r * Math.cos(i * golden);
    y[i] = r * Math.sin(i * golden);
  });
  const pairs = links.map((link) => [index.get(link.source), index.get(link.target)]);
  const degree = new Float64Array(nodes.length);
  for (const [a, b] of pairs) { degree[a] += 1; degree[b] += 1; }
  const rounds = large ? 60 : 220;
  for (let round = 0; round < rounds; round += 1) {
    if (large && round % 5 === 0) await new Promise((resume) => setTimeout(resume));
    const fx = new Float64Array(nodes.length), fy = new Float64Array(nodes.length), cells = new Map();
    const key = (cx, cy) => cx * 100003 + cy;
    for (let i = 0; i < nodes.length; i += 1) {
      const at = key(Math.floor(x[i] / cell), Math.floor(y[i] / cell));
      if (!cells.has(at)) cells.set(at, []);
      cells.get(at).push(i);
      fx[i] -= x[i] * 0.012;
      fy[i] -= y[i] * 0.012;
    }
    for (let i = 0; i < nodes.length; i += 1) {
      const cx = Math.floor(x[i] / cell), cy = Math.floor(y[i] / cell);
      for (let dx = -1; dx <= 1; dx += 1) for (let dy = -1; dy <= 1; dy += 1) {
        for (const j of cells.get(key(cx + dx, cy + dy)) || []) {
          if (i === j) continue;
          const ox = x[i] - x[j] || 0.1, oy = y[i] - y[j] || 0.1, far = ox * ox + oy * oy;
          if (far > reach) continue;
          const push = Math.min((ideal * ideal) / far, 4) * (1 - far / reach);
          fx[i] += ox * push * 0.5;
          fy[i] += oy * push * 0.5;
        }
      }
    }
    for (const [a, b] of pairs) {
      const ox = x[b] - x[a], oy = y[b] - y[a], far = Math.hypot(ox, oy) || 1;
      const pull = ((far - ideal) / far) * 0.3;
      fx[a] += (ox * pull) / Math.sqrt(degree[a]); fy[a] += (oy * pull) / Math.sqrt(degree[a]);
      fx[b] -= (ox * pull) / Math.sqrt(degree[b]); fy[b] -= (oy * pull) / Math.sqrt(degree[b]);
    }
    const most = 30 * (1 - round / rounds) + 1;
    for (let i = 0; i < nodes.length; i += 1) {
      const size = Math.hypot(fx[i], fy[i]) || 1, step = Math.min(size, most) / size;
      x[i] += fx[i] * step;
      y[i] += fy[i] * step;
    }
  }
  return nodes.map((_, i) => ({ x: x[i], y: y[i] }));
}

async function elementsOf(data) {
  const degree = new Map();
  for (const link of data.links) if (link.kind === "entity") degree.set(link.target, (degree.get(link.target) || 0) + 1);
  const places = await layout(data.nodes, data.links.filter((link) => link.kind === "entity" || link.kind === "replaces"));
  return [
    ...data.nodes.map((node, i) => ({
      group: "nodes",
      data: { ...node, font: 12, outline: 2, focus: node.id === data.focus, size: 14 + 4 * Math.sqrt(degree.get(node.id) || 1) },
      position: places[i],
    })),
    ...data.links.map((link, i) => ({ group: "edges", data: { id: `link-${i}`, ...link } })),
  ];
}

function describe(data) {
  const format = new Intl.NumberFormat("en");
  const parts = [data.shown < data.total
    ? `A sample: ${format.format(data.shown)} of ${format.format(data.total)} nodes, the newest facts and their entities.`
    : `${format.format(data.shown)} nodes and ${format.format(data.links.length)} links.`];
  if (data.hidden_links) parts.push(`The weakest ${format.format(data.hidden_links)} links are left out.`);
  note.textContent = parts.join(" ");
  for (const count of document.querySelectorAll("[data-count]")) {
    count.textContent = format.format(data.links.filter((link) => link.kind === count.dataset.count).length);
  }
}

function filter(graph) {
  const kinds = new Set([...document.querySelectorAll("input[name=kind]:checked")].map((box) => box.value));
  const facts = document.getElementById("show-facts").checked;
  graph.batch(() => {
    graph.edges().forEach((edge) => { edge.toggleClass("hidden", !kinds.has(edge.data("kind"))); });
    graph.nodes("[type = 'fact']").toggleClass("hidden", !facts);
  });
}

// Shows what was said until the chosen time, and as closed what had ended by then.
function travel(graph) {
  const latest = Number(moment.value) === times.length - 1, until = latest ? Infinity : times[moment.value];
  document.getElementById("moment-shown").value = latest ? "now" : new Date(until * 1000).toLocaleDateString("en", { dateStyle: "medium" });
  graph.batch(() => {
    const facts = graph.nodes("[type = 'fact']"), entities = graph.nodes("[type = 'entity']");
    facts.forEach((node) => {
      const { said, ended } = node.data();
      node.toggleClass("later", said > until).data("closed", ended !== null && ended <= Math.min(until, Date.now() / 1000));
    });
    entities.addClass("later");
    facts.not(".later").neighborhood("[type = 'entity']").removeClass("later");
  });
}

// Labels have the same size on the screen at every zoom; one that would cover the label of a larger entity is left out.
function label(graph) {
  const font = 12 / graph.zoom(), placed = [];
  graph.batch(() => graph.nodes("[type = 'entity']").sort((a, b) => b.data("size") - a.data("size")).forEach((node) => {
    const { x, y } = node.position(), half = node.data("label").length * font * 0.3, top = y + node.data("size") / 2;
    const free = placed.every((other) => Math.abs(x - other.x) > half + other.half || Math.abs(top - other.top) > font * 1.3);
    if (free) placed.push({ x, half, top });
    node.toggleClass("crowded", !free).data({ font, outline: font / 6 });
  }));
}

function open(node) {
  const id = encodeURIComponent(node.id());
  const near = node.closedNeighborhood();
  node.cy().batch(() => { node.cy().elements().addClass("far"); near.removeClass("far"); });
  if (node.data("type") === "fact") {
    htmx.ajax("GET", `${element.dataset.facts}/${id}/card`, { target: "#node", swap: "innerHTML" });
    return;
  }
  const title = document.createElement("h2"), links = document.createElement("p");
  title.append(Object.assign(document.createElement("bdi"), { textContent: node.data("label") }));
  links.append(
    Object.assign(document.createElement("a"), { className: "button", href: `${element.dataset.graph}?focus=${id}`, textContent: "Focus" }), " ",
    Object.assign(document.createElement("a"), { className: "button", href: `${element.dataset.entities}/${id}`, textContent: "Open" }),
  );
  const count = document.createElement("p");
  count.className = "fine";
  count.textContent = `${near.nodes("[type = 'fact']").length} facts here mention it.`;
  panel.replaceChildren(title, count, links);
}

async function start() {
  const response = await fetch(element.dataset.source, { headers: { accept: "application/json" } });
  if (!response.ok) { note.textContent = `The graph could not be loaded (${response.status}).`; return; }
  const data = await response.json();
  if (!data.nodes.length) { note.textContent = "There are no facts to draw yet."; return; }
  note.textContent = "Arranging…";
  const elements = await elementsOf(data);
  const graph = cytoscape({
    container: element, elements, style: styles(), layout: { name: "preset", fit: true, padding: 40 },
    textureOnViewport: data.nodes.length > 400, hideEdgesOnViewport: data.nodes.length > 800,
    pixelRatio: data.nodes.length > 400 ? 1 : "auto", minZoom: 0.05, maxZoom: 4,
  });
  describe(data);
  filter(graph);
  times = [...new Set(data.nodes.flatMap((node) => node.type === "fact" ? [node.said] : []))].sort((a, b) => a - b);
  moment.max = moment.value = times.length - 1;
  moment.disabled = times.length < 2;
  moment.addEventListener("input", () => travel(graph));
  travel(graph);
  label(graph);
  graph.on("zoom", () => label(graph));
  for (const box of document.querySelectorAll(".kinds input")) box.addEventListener("change", () => filter(graph));
  graph.on("tap", "node", (event) => open(event.target));
  graph.on("tap", (event) => { if (event.target === graph) graph.elements().removeClass("far"); });
  document.addEventListener("vmemo:theme", () => graph.style(styles()));
  element.dataset.ready = "true";
  element.graph = graph;
}

start();
