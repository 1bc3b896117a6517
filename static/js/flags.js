// The command line of a profile: completion and help from the flags of the engine on the host, and the check that
// presses itself once they are read. Without this module the Check button does the same.
const MOST = 8;
const FLAG = /(?:^|\s)(--?[A-Za-z0-9][\w.+-]*|--?)$/;
const VALUE = /(?:^|\s)(--?[A-Za-z0-9][\w.+-]*)(?:[ \t]+|=)([^\s=-]\S*|)$/;

class Completion {
  constructor(box) {
    this.box = box;
    this.area = box.querySelector("textarea");
    this.flags = null;
    this.byName = new Map();
    this.offered = [];
    this.active = -1;
    this.list = element("ul", { className: "flag-list", id: "flag-list", hidden: true });
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Flags");
    this.help = element("p", { className: "flag-help form-hint", hidden: true });
    this.said = element("span", { className: "visually-hidden" });
    this.said.setAttribute("role", "status");
    this.area.after(this.list, this.help, this.said);
    this.area.setAttribute("aria-autocomplete", "list");
    this.area.setAttribute("aria-controls", this.list.id);
    this.area.addEventListener("focus", () => this.load(), { once: true });
    this.area.addEventListener("input", () => this.look());
    this.area.addEventListener("keydown", (event) => this.press(event));
    this.area.addEventListener("keyup", (event) => event.key.startsWith("Arrow") && this.active < 0 && this.tell());
    this.area.addEventListener("click", () => this.tell());
    this.area.addEventListener("blur", () => this.offer([]));
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the caret stays where it is
      const item = event.target.closest("li");
      if (item) this.take(Number(item.dataset.at));
    });
  }

  async load() {
    const answer = await fetch(this.box.dataset.flagsUrl, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!answer?.ok) return;
    this.flags = (await answer.json()).flags;
    for (const flag of this.flags) for (const name of flag.names) this.byName.set(name, flag);
    this.look();
  }

  before() {
    return this.area.value.slice(0, this.area.selectionStart);
  }

  look() {
    if (!this.flags) return;
    const text = this.before();
    const value = VALUE.exec(text), flag = FLAG.exec(text);
    const choices = value && this.byName.get(value[1])?.choices;
    if (flag && !this.byName.has(flag[1])) this.offer(this.beginning(flag[1]), flag[1]);
    else if (choices?.length) this.offer(choices.filter((one) => one.startsWith(value[2]) && one !== value[2]).map((word) => ({ word, note: "" })), value[2]);
    else this.offer([]);
    this.tell();
  }

  beginning(word) {
    const plain = word.replaceAll("_", "-");
    const names = [...this.byName.keys()].filter((name) => name.startsWith("--"));
    const first = names.filter((name) => name.startsWith(plain));
    const inside = plain.length > 3 ? names.filter((name) => !name.startsWith(plain) && name.includes(plain.slice(2))) : [];
    return [...first, ...inside].map((name) => ({ word: name, note: noteOf(this.byName.get(name)) }));
  }

  offer(items, typed = "") {
    this.offered = items.slice(0, MOST);
    this.typed = typed;
    this.active = -1;
    this.area.removeAttribute("aria-activedescendant");
    this.list.replaceChildren(...this.offered.map(({ word, note }, at) => {
      const item = element("li", { id: `flag-${at}` });
      item.dataset.at = at;
      item.setAttribute("role", "option");
      item.append(element("code", { textContent: word }), element("span", { className: "soft small", textContent: note }));
      return item;
    }));
    this.list.hidden = this.offered.length === 0;
    this.said.textContent = items.length ? `${items.length} possible; arrow down to choose` : "";
  }

  press(event) {
    if (this.list.hidden) return;
    if (event.key === "Escape") this.offer([]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.move(event.key === "ArrowDown" ? 1 : -1);
    else if ((event.key === "Enter" || event.key === "Tab") && this.active >= 0) this.take(this.active);
    else return;
    event.preventDefault();
  }

  move(by) {
    const count = this.offered.length;
    this.active = (this.active + by + count + (this.active < 0 && by < 0 ? 1 : 0)) % count;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === this.active)));
    this.area.setAttribute("aria-activedescendant", `flag-${this.active}`);
    this.explain(this.byName.get(this.offered[this.active].word));
  }

  take(at) {
    const { word } = this.offered[at];
    const end = this.area.selectionStart;
    this.area.setRangeText(word, end - this.typed.length, end, "end");
    this.offer([]);
    this.area.dispatchEvent(new Event("input", { bubbles: true }));
    this.area.focus();
  }

  // The help of the flag that the caret stands in, or whose value it stands in.
  tell() {
    if (!this.flags) return;
    const text = this.area.value, at = this.area.selectionStart;
    const start = text.slice(0, at).search(/\S*$/), rest = /^\S*/.exec(text.slice(at))[0];
    const word = (text.slice(start, at) + rest).split("=")[0];
    const earlier = /(--?[A-Za-z0-9][\w.+-]*)[ \t]+$/.exec(text.slice(0, start));
    this.explain(this.byName.get(word) ?? this.byName.get(earlier?.[1]));
  }

  explain(flag) {
    this.help.hidden = !flag;
    if (!flag) return;
    const facts = [flag.value, flag.choices.length ? flag.choices.join(", ") : "", flag.default === "" ? "" : `default ${flag.default}`];
    const old = flag.deprecated ? `Deprecated${flag.instead ? `, write ${flag.instead}` : ""}. ` : "";
    this.help.replaceChildren(element("code", { textContent: flag.names.join(", ") }), ` ${facts.filter(Boolean).join("; ")}. ${old}${flag.help}`);
  }
}

function noteOf(flag) {
  const facts = [flag.value, flag.default === "" ? "" : `default ${flag.default}`, flag.deprecated ? "deprecated" : ""];
  return facts.filter(Boolean).join(", ");
}

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

// Once the flags are read the form is checked, unless somebody has gone on writing.
function startWaiting(place) {
  const form = place.closest("form");
  let written = false;
  form.addEventListener("input", () => (written = true));
  place.addEventListener("live", (event) => {
    if (!event.detail.items.length) return;
    if (written) place.querySelector("[data-then]").textContent = "They are read now: press Check.";
    else form.requestSubmit(form.querySelector("[data-check]"));
  });
}

// Enter in the field of a flag's value is its own button, not the first one of the form.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || !event.target.matches(".flag-set input")) return;
  event.preventDefault();
  event.target.closest(".flag-set").querySelector("[value^='set:']").click();
});

for (const box of document.querySelectorAll("[data-flags-url]")) new Completion(box);
for (const place of document.querySelectorAll("[data-check-when-read]")) startWaiting(place);
