// Memory bars that move: one stream of all cards, last value wins.
export function size(mib) {
  if (mib === null || mib === undefined) return "unknown";
  return mib < 1024 ? `${mib} MiB` : `${(mib / 1024).toFixed(1)} GiB`;
}

function draw(card, item) {
  const known = item.used !== null && item.used !== undefined;
  const bar = card.querySelector("progress");
  if (bar && item.total) bar.max = item.total;
  if (bar) bar.value = known ? item.used : 0;
  card.classList.toggle("stale", Boolean(item.stale) || !known);
  write(card, "used", known ? size(item.used) : "unknown");
  write(card, "util", item.util === null || item.util === undefined ? "" : `${item.util} %`);
  write(card, "temp", item.temp === null || item.temp === undefined ? "" : `${item.temp} °C`);
  write(card, "reason", item.unread_reason || "");
  const age = card.querySelector("time");
  if (age && item.read_at) age.dateTime = item.read_at;
}

function write(card, name, text) {
  const element = card.querySelector(`[data-gpu-${name}]`);
  if (element && element.textContent !== text) element.textContent = text;
}

document.addEventListener("live", (event) => {
  if (event.target.dataset?.stream !== "gpus") return;
  for (const item of event.detail.items) {
    for (const card of document.querySelectorAll(`[data-gpu="${item.id}"]`)) draw(card, item);
  }
}, true);
