// Times in the browser's zone (or UTC), ages that stay true, and clocks that count.
const utcWanted = () => localStorage.getItem("zone") === "utc";
const two = (number) => String(number).padStart(2, "0");

export function duration(seconds, parts = 2) {
  let left = Math.max(0, Math.floor(seconds));
  const words = [];
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const count = Math.floor(left / length);
    if (count || words.length) words.push(count ? `${count} ${unit}` : "");
    left -= count * length;
  }
  return words.slice(0, parts).filter(Boolean).join(" ") || "0 s";
}

function zoneOf(date) {
  if (utcWanted()) return "UTC";
  const minutes = -date.getTimezoneOffset();
  const sign = minutes < 0 ? "−" : "+";
  return `UTC${sign}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

export function parts(date) {
  const get = (name) => (utcWanted() ? date[`getUTC${name}`]() : date[`get${name}`]());
  const day = `${get("FullYear")}-${two(get("Month") + 1)}-${two(get("Date"))}`;
  const minute = `${two(get("Hours"))}:${two(get("Minutes"))}`;
  return { day, minute, clock: `${minute}:${two(get("Seconds"))}`, zone: zoneOf(date) };
}

function text(date, style) {
  const at = parts(date);
  if (style === "ago") return `${duration((Date.now() - date) / 1000, 1)} ago`;
  return style === "clock" ? at.clock : `${at.day} ${at.minute}${utcWanted() ? " UTC" : ""}`;
}

export function writeTimes(root = document) {
  for (const element of root.querySelectorAll("time[data-time]")) {
    const date = new Date(element.dateTime);
    const at = parts(date);
    element.textContent = text(date, element.dataset.time);
    element.title = `${at.day} ${at.clock} ${at.zone}`;
  }
}

function tick() {
  for (const element of document.querySelectorAll("time[data-time='ago']")) {
    const words = text(new Date(element.dateTime), "ago");
    if (words !== element.textContent) element.textContent = words;
  }
  for (const element of document.querySelectorAll("[data-since]")) {
    element.textContent = duration((Date.now() - new Date(element.dataset.since)) / 1000);
  }
}

export function startTimes() {
  const button = document.querySelector("[data-zone-toggle]");
  const say = () => button?.setAttribute("aria-pressed", String(utcWanted()));
  button?.addEventListener("click", () => {
    localStorage.setItem("zone", utcWanted() ? "local" : "utc");
    say();
    writeTimes();
    document.dispatchEvent(new CustomEvent("zone"));
  });
  say();
  writeTimes();
  setInterval(tick, 1000);
  document.addEventListener("htmx:afterSwap", (event) => writeTimes(event.detail.elt.parentNode || document));
}
