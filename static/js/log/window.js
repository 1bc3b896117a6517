// The part of the log that is held here: chunks without a gap, near to what is looked at. What comes before and after them
// is fetched by key, and what is far away is let go, so that a log of a million lines is as light as a short one.
const MOST_LINES = 4_000, MOST_LETTERS = 1_000_000, SLACK = 1.25;

export class Window {
  // onChange(kind): "more" (lines were added at the end, or the last one has grown: from index `changed` on), "other" (the
  // lines are others) or "ready" (what was fetched has come).
  constructor(lines, { url, hasOlder, isFollowing, onChange }) {
    Object.assign(this, { lines, url, isFollowing, onChange, hasOlder });
    [this.items, this.hasNewer, this.step, this.busy, this.newest, this.late] = [[], false, "", null, 0, []];
    this.total = 0; // lines of the whole log, as far as it was told
  }

  // New chunks of a log that is still written. Returns how many of their lines are not held here.
  hear(items) {
    this.total = Math.max(this.total, ...items.map((item) => item.line + item.lines - 1));
    if (this.busy) return this.late.push(...items) && 0; // they may be among what is fetched
    const fresh = items.filter((item) => item.seq > this.newest && (!this.step || item.step === this.step));
    this.newest = Math.max(this.newest, ...items.map((item) => item.seq));
    if (!this.hasNewer && !this.isFollowing() && this.isTooLarge()) this.hasNewer = true;
    if (this.hasNewer) return fresh.reduce((sum, item) => sum + item.lines, 0);
    this.items.push(...fresh);
    if (this.isFollowing() && this.isTooLarge()) this.trim("older");
    else this.onChange("more", this.lines.add(fresh));
    return 0;
  }

  isTooLarge() {
    return this.size(this.items).some((part) => part > SLACK);
  }

  size(items) {
    let [lines, letters] = [0, 0];
    for (const item of items) [lines, letters] = [lines + item.lines, letters + item.text.length];
    return [lines / MOST_LINES, letters / MOST_LETTERS];
  }

  // Lets chunks go at one end until what is left is small enough.
  trim(end) {
    let [lines, letters] = this.size(this.items);
    while (this.items.length > 1 && (lines > 1 || letters > 1)) {
      const gone = end === "older" ? this.items.shift() : this.items.pop();
      const [a, b] = this.size([gone]);
      [lines, letters] = [lines - a, letters - b];
      if (end === "older") this.hasOlder = true;
      else this.hasNewer = true;
    }
    this.rebuild();
  }

  rebuild() {
    this.lines.clear();
    this.lines.add(this.items);
    this.onChange("other");
  }

  fetchOlder() {
    if (!this.hasOlder || !this.items.length) return null;
    return this.fetch({ before: this.items[0].seq }, ({ items, older }) => {
      this.items.unshift(...items);
      this.hasOlder = older;
      this.trim("newer");
    });
  }

  fetchNewer() {
    if (!this.hasNewer || !this.items.length) return null;
    return this.fetch({ after: this.items[this.items.length - 1].seq }, ({ items, newer }) => {
      this.items.push(...items);
      this.reaches(newer);
      this.trim("older");
    });
  }

  async isIdle() {
    while (this.busy) await this.busy;
  }

  // Another place: { line }, { around: seq }, or {} for the end.
  async show(place) {
    await this.isIdle();
    await this.fetch(place, ({ items, older, newer }) => {
      [this.items, this.hasOlder] = [items, older];
      this.reaches(newer);
      this.rebuild();
    });
  }

  reaches(newer) {
    this.hasNewer = newer;
    if (!newer && this.items.length) this.newest = Math.max(this.newest, this.items[this.items.length - 1].seq);
  }

  fetch(place, take) {
    this.busy ??= this.ask(place, take).then((has) => {
      this.busy = null;
      this.hear(this.late.splice(0));
      if (has) this.onChange("ready");
    });
    return this.busy;
  }

  // Whether the panel has answered.
  async ask(place, take) {
    const query = new URLSearchParams({ ...place, ...(this.step ? { step: this.step } : {}) });
    const answer = await fetch(`${this.url}?${query}`, { headers: { Accept: "application/json" } }).catch(() => null);
    if (answer?.ok) take(await answer.json());
    return Boolean(answer?.ok);
  }
}
