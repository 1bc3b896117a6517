// Forms: fields that belong to a choice made above them, and buttons that must not be pressed twice.
const sent = new WeakSet();

function apply(form) {
  for (const block of form.querySelectorAll("[data-shows-for]")) {
    const [name, values] = block.dataset.showsFor.split("=");
    const chosen = new FormData(form).getAll(name);
    block.hidden = !values.split("|").some((value) => chosen.includes(value));
  }
}

function guard(event) {
  const form = event.target;
  if (form.method !== "post") return;
  if (sent.has(form)) event.preventDefault();
  sent.add(form);
  // A page taken from the back-forward cache may send its form again.
  addEventListener("pageshow", () => sent.delete(form), { once: true });
}

export function startFields() {
  document.addEventListener("submit", guard);
  for (const form of document.querySelectorAll("form")) {
    if (!form.querySelector("[data-shows-for]")) continue;
    form.addEventListener("change", () => apply(form));
    apply(form);
  }
}
