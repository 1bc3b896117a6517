// Benchmarks over time: tokens per second, one line for each number of requests at once.
//   <div data-trend='[{"at": 1700000000, "revision": "r2", "rates": {"1": 79.5, "8": 612}}]'></div>
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { parts } from "./times.js";

const COLORS = ["--rl-busy", "--rl-warn", "--rl-good", "--rl-magenta", "--rl-bad", "--rl-cyan", "--rl-off", "--rl-ink"];
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const HEIGHT = 200;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const rate = (value) => (value === null || value === undefined ? "not told" : value.toLocaleString("en", { maximumFractionDigits: 1 }));

// Benchmarks of the same minute would stand in days of nothing: they get an hour. uPlot itself makes years of one point.
function timesShown(points) {
  const [first, last] = [points[0].at, points.at(-1).at];
  return (_, from, to) => (last - first < 60 ? [first - 1800, last + 1800] : [from, to]);
}

function drawn(root) {
  const points = JSON.parse(root.dataset.trend);
  const levels = [...new Set(points.flatMap((point) => Object.keys(point.rates)))].sort((a, b) => a - b);
  const axis = { stroke: css("--rl-soft"), grid: { stroke: css("--rl-line"), width: 1 }, ticks: { stroke: css("--rl-line") } };
  const time = (seconds) => parts(new Date(seconds * 1000));
  const options = {
    width: root.clientWidth - 36,
    height: HEIGHT,
    scales: { x: { range: timesShown(points) }, y: { range: (plot, least, most) => [0, (most || 1) * 1.1] } },
    axes: [
      { ...axis, space: 90, values: (_, ticks) => ticks.map((tick) => time(tick).day + "\n" + time(tick).clock) },
      { ...axis, size: 70, values: (_, ticks) => ticks.map(rate) },
    ],
    series: [
      { label: "Measured", value: (_, at, __, index) => (index === null ? "" : `${time(at).day} ${time(at).clock}, ${points[index].revision}`) },
      ...levels.map((level, index) => ({
        label: level === "1" ? "1 at once" : `${level} at once`,
        stroke: css(COLORS[index % COLORS.length]),
        dash: DASHES[Math.floor(index / 2) % DASHES.length],
        width: 2,
        spanGaps: true,
        points: { show: true, size: 7, fill: css(COLORS[index % COLORS.length]) },
        value: (_, value, __, at) => rate(at === null ? points.at(-1).rates[level] : value),
      })),
    ],
  };
  const data = [points.map((point) => point.at), ...levels.map((level) => points.map((point) => point.rates[level] ?? null))];
  const plot = new uPlot(options, data, root);
  plot.root.setAttribute("role", "img");
  plot.root.setAttribute("aria-label", "Tokens per second over time; the table below tells the same.");
  return plot;
}

let plots = [];

function drawAll() {
  for (const { plot } of plots) plot.destroy();
  plots = [...document.querySelectorAll("[data-trend]")].map((root) => ({ root, plot: drawn(root) }));
}

drawAll();
document.addEventListener("htmx:afterSwap", drawAll);
for (const name of ["theme", "zone"]) document.addEventListener(name, drawAll);
addEventListener("resize", () => {
  for (const { root, plot } of plots) plot.setSize({ width: root.clientWidth - 36, height: HEIGHT });
});
