// Forms: fields that belong to a choice made above them, and buttons that must not be pressed twice.
function apply(form) {
  for (const block of form.querySelectorAll("[data-shows-for]")) {
    const [name, values] = block.dataset.showsFor.split("=");
    const chosen = new FormData(form).getAll(name);
    block.hidden = !values.split("|").some((value) => chosen.includes(value));
  }
}

function guard(form) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
  // A page taken from the back-forward cache may be sent again.
  addEventListener("pageshow", () => delete form.dataset.sent);
}

export function startFields() {
  for (const form of document.querySelectorAll("form")) {
    if (form.querySelector("[data-shows-for]")) {
      form.addEventListener("change", () => apply(form));
      apply(form);
    }
    if (form.method === "post") guard(form);
  }
}
