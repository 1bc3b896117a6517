// A table that is wider than the screen can be scrolled with the keyboard; one that is not is no stop on the way.
function check(box) {
  if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

export function startScroll() {
  const observer = new ResizeObserver((entries) => entries.forEach((entry) => check(entry.target)));
  const watch = () => document.querySelectorAll(".table-wrap").forEach((box) => observer.observe(box));
  watch();
  document.addEventListener("htmx:afterSwap", watch);
}
