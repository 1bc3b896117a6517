// Keys for the whole page. ? shows them; which do what stands in the dialog itself (templates/ui/keys.html):
//   <kbd data-key="g o" data-href="/">, <kbd data-key="/">
const PAUSE = 1_500; // between the two letters of a way
let first = "", timer = 0;

// Whether a key belongs to what is typed, or to the browser.
export function isTyping(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  return Boolean(event.target.closest?.("input, textarea, select, [contenteditable], dialog[open]"));
}

function remember(letter) {
  clearTimeout(timer);
  first = letter;
  timer = setTimeout(() => (first = ""), PAUSE);
}

function press(event) {
  if (isTyping(event)) return;
  const dialog = document.getElementById("keys");
  const way = first === "g" ? dialog.querySelector(`[data-key="g ${CSS.escape(event.key)}"]`) : null;
  if (way) location.assign(way.dataset.href);
  else if (event.key === "?") dialog.showModal();
  else if (event.key === "/") search();
  else return remember(event.key === "g" ? "g" : "");
  event.preventDefault();
  remember("");
}

// The search of what is on the page; a page without one leads to that of the jobs.
function search() {
  const box = document.querySelector("[data-search], main form[role='search'] input:not([type='hidden'])");
  if (!box) return location.assign(document.querySelector("[data-key='g j']").dataset.href);
  box.focus();
  box.select();
}

export function startKeys() {
  document.addEventListener("keydown", press);
  for (const button of document.querySelectorAll("[data-keys]")) {
    button.hidden = false;
    button.addEventListener("click", () => document.getElementById("keys").showModal());
  }
}
