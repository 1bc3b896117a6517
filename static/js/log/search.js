// Search: the panel says which lines of the whole log have the text; the way from one to the next is here.
const PAUSE = 200, AGAIN = 2_000;

export class Search {
  constructor(root, view, { win, go }) {
    Object.assign(this, { view, win, goTo: go });
    this.url = root.dataset.logFindUrl;
    this.box = root.querySelector("[data-log-search]");
    this.count = root.querySelector("[data-log-count]");
    this.buttons = [root.querySelector("[data-log-previous]"), root.querySelector("[data-log-next]")];
    [this.needle, this.matches, this.more, this.at, this.asked] = ["", [], false, -1, 0];
    this.box.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.begin(), PAUSE);
    });
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.buttons[0].addEventListener("click", () => this.go(-1));
    this.buttons[1].addEventListener("click", () => this.go(1));
    this.say();
  }

  key(event) {
    if (event.key === "Escape") {
      this.box.value = "";
      this.begin();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.needle !== this.box.value.toLowerCase()) this.begin();
      else this.go(event.shiftKey ? -1 : 1);
    }
  }

  async begin() {
    clearTimeout(this.timer);
    clearTimeout(this.again);
    this.again = null;
    this.needle = this.view.needle = this.box.value.toLowerCase();
    [this.matches, this.more, this.at, this.view.current] = [[], false, -1, ""];
    this.view.redraw();
    if (!this.needle) return this.say();
    this.count.textContent = "searching";
    if (!(await this.ask())) return;
    if (this.matches.length) this.go(1);
  }

  // The log has grown: look again, but not at each line.
  look() {
    if (!this.needle || this.again) return;
    this.again = setTimeout(async () => {
      await this.ask();
      this.again = null;
    }, AGAIN);
  }

  async ask() {
    const asked = (this.asked += 1);
    const query = new URLSearchParams({ text: this.needle, ...(this.win.step ? { step: this.win.step } : {}) });
    const answer = await fetch(`${this.url}?${query}`, { headers: { Accept: "application/json" } }).catch(() => null);
    const found = answer?.ok ? await answer.json() : null;
    if (asked !== this.asked) return false; // something else was typed meanwhile
    if (!found) {
      this.count.textContent = "the panel does not answer";
      return false;
    }
    const current = this.matches[this.at];
    [this.matches, this.more] = [found.lines, found.more];
    this.at = current ? this.matches.findIndex(([seq, n]) => seq === current[0] && n === current[1]) : -1;
    this.say();
    return true;
  }

  go(step) {
    const { length } = this.matches;
    if (!length) return;
    this.at = (Math.max(this.at, step > 0 ? -1 : 0) + step + length) % length;
    const [seq, n] = this.matches[this.at];
    this.view.current = `${seq}-${n}`;
    this.goTo({ around: seq }, this.view.current);
    this.say();
  }

  say() {
    const { length } = this.matches;
    for (const button of this.buttons) button.disabled = !length;
    if (!this.needle) this.count.textContent = "";
    else if (!length) this.count.textContent = this.more ? "no line so far" : "no line";
    else this.count.textContent = `${Math.max(1, this.at + 1)} of ${this.more ? "the newest " : ""}${length.toLocaleString()} lines`;
  }
}
