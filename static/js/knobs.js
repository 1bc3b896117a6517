// The settings that people change first follow the command line, and it follows them, while the form is filled in.
// Without this module the button does the same, and saving does too.
const form = document.querySelector("[data-knobs-form]");
const FIELDS = "#knobs input, #knobs select";
let asking = null;

function values(of) {
  return new Map([...of.querySelectorAll(FIELDS)].map((field) => [field.name, field]));
}

// What is typed meanwhile stays as it is typed; all else is as the panel says it.
function take(page, sent) {
  const fresh = page.querySelector("#knobs"), area = page.querySelector("textarea[name=command]");
  if (!fresh || !area) return;
  const before = values(document), after = values(fresh.parentNode);
  const typed = (name) => sent.get(name) !== (before.get(name)?.value ?? sent.get(name));
  const refused = fresh.querySelector(".is-invalid, [role=alert]") ?? document.querySelector("#knobs .is-invalid, #knobs [role=alert]");
  const same = before.size === after.size && [...after.keys()].every((name) => before.has(name));
  const active = document.activeElement?.id;
  if (same && !refused) for (const [name, field] of after) { if (!typed(name)) before.get(name).value = field.value; }
  else document.querySelector("#knobs").replaceWith(fresh);
  if (form.elements.command.value === sent.get("command")) form.elements.command.value = area.value;
  if (active && document.activeElement?.id !== active) document.getElementById(active)?.focus();
}

async function ask() {
  asking?.abort();
  asking = new AbortController();
  const sent = new FormData(form);
  sent.set("do", "knobs");
  const wanted = { method: "POST", body: new URLSearchParams(sent), signal: asking.signal };
  // A later change has asked anew, or the panel is not reached: the button is there all the same.
  const text = await fetch(form.action, wanted).then((answer) => answer.ok && answer.text()).catch(() => "");
  if (text) take(new DOMParser().parseFromString(text, "text/html"), sent);
}

form?.addEventListener("change", (event) => {
  if (event.target.matches(`${FIELDS}, textarea[name=command], select[name=engine]`)) ask();
});
