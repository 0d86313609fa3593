// Plots of numbers over time, in the colours of the theme.
"use strict";

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const SERIES = {
  growth: [["Facts", "--accent"], ["Messages", "--blue"]],
  confidence: [["Confidence", "--accent"]],
};

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Day and month, and the year where it changes.
function dates(_, times) {
  let year;
  return times.map((time) => {
    const date = new Date(time * 1000), day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
    if (date.getUTCFullYear() === year) return day;
    year = date.getUTCFullYear();
    return `${day}\n${year}`;
  });
}

function draw(element) {
  const kind = element.dataset.plot;
  const data = JSON.parse(element.dataset.series);
  element.replaceChildren();
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "11px system-ui" };
  const confidence = kind === "confidence";
  const options = {
    width: Math.max(240, element.clientWidth),
    height: confidence ? 160 : 200,
    legend: { live: false, show: !confidence },
    cursor: { points: { size: 6 } },
    scales: confidence ? { y: { range: [0, 1] } } : {},
    axes: [{ ...axis, values: dates, space: 70 }, { ...axis, size: 44 }],
    series: [
      { value: (_, time) => (time == null ? "" : new Date(time * 1000).toISOString().slice(0, 10)) },
      ...SERIES[kind].map(([label, name]) => ({
        label,
        stroke: colour(name),
        width: 2,
        paths: confidence ? uPlot.paths.stepped({ align: 1 }) : undefined,
        points: { show: confidence, size: 7, fill: colour("--surface") },
      })),
    ],
    tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
  };
  new uPlot(options, data, element);
}

function drawAll() {
  document.querySelectorAll("[data-plot]").forEach(draw);
}

drawAll();
document.addEventListener("vmemo:theme", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawAll, 150); });
