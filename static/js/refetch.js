// Parts of a page that are fetched anew when their stream says that something changed:
//   <div data-stream="job:7" data-refetch=".job-part"></div>  and  <section class="job-part" hx-get="…" hx-trigger="refresh" …>
// A part keeps its open <details>, and is left alone when the data-key of its first element is unchanged: somebody may be typing in it.

// The first word of a stream may come before htmx has looked at the page, and there may be no second one.
const htmxIsReady = new Promise((resolve) => {
  if (document.readyState === "complete") resolve();
  else document.addEventListener("DOMContentLoaded", () => setTimeout(resolve), { once: true });
});

document.addEventListener("live", async (event) => {
  const parts = event.target.dataset?.refetch;
  if (!parts || !event.detail.items.length) return;
  await htmxIsReady;
  for (const part of document.querySelectorAll(parts)) window.htmx.trigger(part, "refresh");
}, true);

let open = new Set();
let focused = null;

document.addEventListener("htmx:beforeSwap", (event) => {
  const part = event.detail.target;
  const status = event.detail.xhr.status;
  if (status !== 200) {
    event.detail.shouldSwap = false; // a refused or failed refresh must not wipe what is on the screen
    return;
  }
  const fresh = new DOMParser().parseFromString(event.detail.serverResponse, "text/html").body.firstElementChild;
  const key = part.firstElementChild?.dataset.key;
  if (key && fresh?.dataset.key === key) event.detail.shouldSwap = false;
  open = new Set([...part.querySelectorAll("details[open][id]")].map((details) => details.id));
  focused = part.contains(document.activeElement) ? document.activeElement.id : null;
});

document.addEventListener("htmx:afterSwap", () => {
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
});
