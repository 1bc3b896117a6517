// The host page: the memory of its cards over the last minutes, the last day, or as long as it is kept. Whoever drags over a piece sees it closer.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { COLORS, DASHES, STEPS_MIB, css } from "./curve.js";
import { size } from "./gpus.js";
import { parts } from "./times.js";

const HEIGHT = 240;
const HOLE = 5; // seconds, or two steps: less than that between two readings is no gap
const AGAIN = { minutes: 10_000, day: 60_000, all: 300_000 };

const known = (value) => value !== null && value !== undefined;

function moment(seconds, long) {
  const at = parts(new Date(seconds * 1000));
  return long ? `${at.day} ${at.minute}` : at.clock;
}

// What the legend says while nobody points at the curve.
function summary(card) {
  const most = Math.max(-1, ...card.most);
  const last = card.most.findLast(known);
  return most < 0 ? "not read" : `${size(last)}, at most ${size(most)}`;
}

function pointed(card, index) {
  const most = card.most[index];
  if (!known(most)) return "not read";
  const least = card.least?.[index];
  return known(least) && least !== most ? `${size(least)} to ${size(most)}` : size(most);
}

// The line is the most that was in use; where a step holds more than one value, a pale area goes down to the least.
function seriesOf(told) {
  const series = [], bands = [], data = [];
  const hole = Math.max(HOLE, 2 * told.step);
  const gaps = (plot, _, from, to, found) =>
    found.filter(([left, right]) => plot.posToVal(right, "x", true) - plot.posToVal(left, "x", true) > hole);
  for (const [index, card] of told.cards.entries()) {
    const stroke = css(COLORS[index % COLORS.length]);
    const line = { stroke, dash: DASHES[index % DASHES.length], gaps, points: { show: false } };
    series.push({ ...line, label: card.label, width: 2, value: (_, __, ___, at) => (at === null ? summary(card) : pointed(card, at)) });
    data.push(card.most);
    if (!card.least) continue;
    bands.push({ series: [series.length, series.length + 1], fill: `${stroke}33` });
    series.push({ ...line, stroke: undefined, width: 0, class: "u-least" });
    data.push(card.least);
  }
  return { series, bands, data };
}

function options(told, width, long, zoom) {
  const axis = { stroke: css("--rl-soft"), grid: { stroke: css("--rl-line"), width: 1 }, ticks: { stroke: css("--rl-line") } };
  const top = Math.max(1024, ...told.cards.map((card) => Math.max(card.total ?? 0, ...card.most)));
  const first = told.start, last = told.start + told.step * Math.max(1, told.points - 1);
  const { series, bands, data } = seriesOf(told);
  return [{
    width,
    height: HEIGHT,
    cursor: { drag: { setScale: false } },
    scales: { x: { range: [first, last] }, y: { range: [0, top * 1.02] } },
    axes: [
      { ...axis, space: long ? 120 : 80, values: (_, ticks) => ticks.map((tick) => moment(tick, long)) },
      { ...axis, size: 76, incrs: STEPS_MIB, values: (_, ticks) => ticks.map((tick) => size(Math.round(tick))) },
    ],
    series: [{ label: "Time", value: (_, at) => (known(at) ? moment(at, long) : "last") }, ...series],
    bands,
    hooks: { setSelect: [zoom] },
  }, [Array.from({ length: told.points }, (_, index) => first + index * told.step), ...data]];
}

function startMemory(root) {
  const buttons = [...document.querySelectorAll("[data-span]")];
  const note = document.querySelector("[data-memory-note]");
  let span = "minutes", piece = null, told = null, plot = null, timer = 0, asked = 0;

  function zoom(drawn) {
    const { left, width } = drawn.select;
    if (width < 5) return;
    const at = (place) => Math.round(drawn.posToVal(place, "x"));
    piece = [at(left), Math.max(at(left) + 10, at(left + width))];
    ask();
  }

  function draw() {
    plot?.destroy();
    plot = null;
    const empty = !told.cards.some((card) => card.most.some(known));
    root.querySelector("[data-curve-empty]").hidden = !empty;
    if (empty) return;
    const long = told.step * told.points > 12 * 3600;
    plot = new uPlot(...options(told, root.clientWidth, long, zoom), root);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", `Memory in use over time: ${told.cards.map((card) => `${card.label} ${summary(card)}`).join("; ")}`);
  }

  function say(words) {
    note.textContent = words;
    note.hidden = !words;
  }

  async function ask() {
    clearTimeout(timer);
    const number = ++asked;
    const query = new URLSearchParams({ span, ...(piece && { since: piece[0], until: piece[1] }) });
    try {
      const answer = await fetch(`${root.dataset.memory}?${query}`, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(answer.status);
      const found = await answer.json();
      if (number !== asked) return; // another was asked for meanwhile
      told = found;
      say(piece ? "A piece that you have marked. Choose how far back to see all again." : "");
      draw();
    } catch {
      if (number === asked) say("The curve could not be fetched; it is tried again.");
    }
    if (!piece && number === asked) timer = setTimeout(next, AGAIN[span]);
  }

  // Not while somebody points at it, marks a piece, or looks elsewhere.
  function next() {
    if (document.visibilityState === "hidden" || root.matches(":hover")) timer = setTimeout(next, 1_000);
    else ask();
  }

  for (const button of buttons) {
    button.addEventListener("click", () => {
      [span, piece] = [button.dataset.span, null];
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      ask();
    });
  }
  for (const name of ["theme", "zone"]) document.addEventListener(name, () => told && draw());
  new ResizeObserver(() => plot?.setSize({ width: root.clientWidth, height: HEIGHT })).observe(root);
  ask();
}

for (const root of document.querySelectorAll("[data-memory]")) startMemory(root);
