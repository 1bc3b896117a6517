// The memory of the job's cards over time, with the steps marked on it.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { parts } from "./times.js";
import { size } from "./gpus.js";

export const COLORS = ["--rl-busy", "--rl-warn", "--rl-good", "--rl-magenta", "--rl-bad", "--rl-cyan", "--rl-off", "--rl-ink"];
export const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const HEIGHT = 220;
export const STEPS_MIB = Array.from({ length: 20 }, (_, power) => 2 ** power); // round in MiB and in GiB
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function cardsOf(text) {
  return text.split(";").filter(Boolean).map((card) => {
    const [uuid, label, total] = card.split("=");
    return { uuid, label, total: Number(total), times: [], used: [] };
  });
}

// Steps that begin so close together that their words would lie on each other are one mark with all of them.
function marksOf(ctx, plot) {
  const marks = [];
  for (const step of document.querySelectorAll("[data-step-start]")) {
    const x = plot.valToPos(Date.parse(step.dataset.stepStart) / 1000, "x", true);
    if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
    const last = marks.at(-1);
    if (last && x < last.x + ctx.measureText(last.words).width + 12 * devicePixelRatio) last.words += `, ${step.dataset.step}`;
    else marks.push({ x, words: step.dataset.step });
  }
  return marks;
}

function drawSteps(plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px sans-serif`;
  [ctx.strokeStyle, ctx.fillStyle] = [css("--rl-off"), css("--rl-soft")];
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { x, words } of marksOf(ctx, plot)) {
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    // A mark near the right edge has its words on its left.
    const isLate = x + ctx.measureText(words).width + 8 * devicePixelRatio > bbox.left + bbox.width;
    ctx.textAlign = isLate ? "right" : "left";
    ctx.fillText(words, x + (isLate ? -4 : 4) * devicePixelRatio, bbox.top + 12 * devicePixelRatio);
  }
  ctx.restore();
}

// What the legend says while nobody points at the curve.
function summary(card) {
  const last = card.used[card.used.length - 1];
  return `${last === null || last === undefined ? "not measured" : size(last)}, at most ${size(Math.max(0, ...card.used))}`;
}

// While a plan waits there is one reading. The library would draw days around it; it gets a minute. And a job of a second
// or two gets at least as many seconds as there are ticks.
function timesShown(plot, from, to) {
  const times = plot.data[0];
  const [first, last] = [times[0] ?? from, times[times.length - 1] ?? to];
  if (first === last) return [first - 30, first + 30];
  return last - first < 10 ? [first, first + 10] : [from, to];
}

function options(cards, width) {
  const axis = { stroke: css("--rl-soft"), grid: { stroke: css("--rl-line"), width: 1 }, ticks: { stroke: css("--rl-line") } };
  const top = Math.max(1024, ...cards.map((card) => card.total), ...cards.map((card) => Math.max(0, ...card.used)));
  return {
    width,
    height: HEIGHT,
    scales: { x: { range: timesShown }, y: { range: [0, top * 1.02] } },
    axes: [
      { ...axis, space: 80, values: (_, ticks) => ticks.map((tick) => parts(new Date(tick * 1000)).clock) },
      { ...axis, size: 76, incrs: STEPS_MIB, values: (_, ticks) => ticks.map((tick) => size(Math.round(tick))) },
    ],
    series: [
      { label: "Time", value: (_, at) => (at === null || at === undefined ? "last" : parts(new Date(at * 1000)).clock) },
      ...cards.map((card, index) => ({
        label: card.label,
        stroke: css(COLORS[index % COLORS.length]),
        dash: DASHES[index % DASHES.length],
        width: 2,
        points: { show: () => card.times.length === 1 },
        value: (_, used, __, at) => (at === null ? summary(card) : used === null || used === undefined ? "not measured" : size(used)),
      })),
    ],
    hooks: { draw: [drawSteps] },
  };
}

export function startCurve(root) {
  const cards = cardsOf(root.dataset.curve);
  const byUuid = new Map(cards.map((card) => [card.uuid, card]));
  let plot = null;
  const data = () => uPlot.join(cards.map((card) => [card.times, card.used]));
  const width = () => root.clientWidth - 36;
  const build = () => {
    plot?.destroy();
    root.querySelector("[data-curve-empty]").hidden = true;
    plot = new uPlot(options(cards, width()), data(), root);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", `Memory in use over time: ${cards.map((card) => card.label).join(", ")}`);
  };
  root.addEventListener("live", (event) => {
    for (const item of event.detail.items) {
      if (!byUuid.has(item.uuid)) {
        byUuid.set(item.uuid, { uuid: item.uuid, label: item.uuid.slice(0, 12), total: 0, times: [], used: [] });
        cards.push(byUuid.get(item.uuid));
      }
      byUuid.get(item.uuid).times.push(Date.parse(item.at) / 1000);
      byUuid.get(item.uuid).used.push(item.used);
    }
    if (!cards.some((card) => card.times.length)) return;
    if (plot && plot.series.length === cards.length + 1) plot.setData(data());
    else build();
  });
  document.addEventListener("theme", () => plot && build());
  document.addEventListener("zone", () => plot && build());
  document.addEventListener("htmx:afterSwap", () => plot?.redraw());
  new ResizeObserver(() => plot?.setSize({ width: width(), height: HEIGHT })).observe(root);
}
