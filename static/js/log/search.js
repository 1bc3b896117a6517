// Search over the loaded lines: how many match, and the way from one to the next.
export class Search {
  constructor(root, lines, view) {
    [this.lines, this.view] = [lines, view];
    this.box = root.querySelector("[data-log-search]");
    this.count = root.querySelector("[data-log-count]");
    this.buttons = [root.querySelector("[data-log-previous]"), root.querySelector("[data-log-next]")];
    [this.needle, this.matches, this.at, this.seen] = ["", [], -1, 0];
    this.box.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.begin(), 150);
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

  begin() {
    clearTimeout(this.timer);
    this.needle = this.view.needle = this.box.value.toLowerCase();
    [this.matches, this.at, this.seen, this.view.current] = [[], -1, 0, -1];
    this.look();
    this.view.redraw();
    if (this.matches.length) this.go(1);
  }

  // Looks at the lines that came since; called again after each batch.
  look() {
    const { all } = this.lines;
    if (this.needle) {
      for (let i = this.seen; i < all.length; i += 1) {
        if (all[i].plain.toLowerCase().includes(this.needle)) this.matches.push(i);
      }
    }
    this.seen = all.length;
    this.say();
  }

  go(step) {
    const { length } = this.matches;
    if (!length) return;
    this.at = (this.at + step + length) % length;
    this.view.current = this.matches[this.at];
    this.view.show(this.view.current);
    this.say();
  }

  say() {
    for (const button of this.buttons) button.disabled = !this.matches.length;
    if (!this.needle) this.count.textContent = "";
    else if (!this.matches.length) this.count.textContent = "no line";
    else this.count.textContent = `${Math.max(1, this.at + 1)} of ${this.matches.length.toLocaleString()} lines`;
  }
}
