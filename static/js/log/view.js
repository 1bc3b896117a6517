// Draws the lines that are on the screen, and no others. Follows the end until somebody scrolls up.
import { Heights } from "./heights.js";
import { rowOf } from "./row.js";

const ROW = 20, SPARE = 30, AT_END = 8, EDGE = 400;

export class View {
  // isEnd(): nothing of the log comes after the lines. onEdge("older" | "newer"): they end near to what is looked at.
  constructor(root, lines, { onFollow, onEdge, isEnd }) {
    Object.assign(this, { root, lines, onFollow, onEdge, isEnd });
    this.box = root.querySelector("[data-log-view]");
    this.space = root.querySelector("[data-log-space]");
    this.rows = root.querySelector("[data-log-rows]");
    this.heights = new Heights(lines, { row: ROW });
    [this.drawn, this.needle, this.current, this.target] = [new Map(), "", "", ""];
    this.anchor = { id: "", offset: 0 }; // the first line on the screen, and how much of it is above
    [this.following, this.lastTop, this.asked] = [true, 0, false];
    this.box.addEventListener("scroll", () => this.scrolled());
    new ResizeObserver(() => this.resized()).observe(this.box);
  }

  changedFrom(index) {
    this.heights.forgetFrom(index);
    this.ask();
  }

  // The lines are others now: what was looked at stays where it is.
  replaced() {
    this.heights.forgetFrom(0);
    const index = this.lines.byId.get(this.anchor.id);
    if (!this.following && index !== undefined) {
      this.space.style.height = `${this.heights.total()}px`;
      this.scrollTo(this.heights.top(index) + this.anchor.offset);
    }
    this.draw();
  }

  setWrap(on) {
    const first = this.heights.indexAt(this.box.scrollTop);
    this.wrap = on;
    this.root.classList.toggle("log-wrap", on);
    this.heights.setColumns(on ? this.columns() : 0);
    this.redraw();
    if (!this.following) this.scrollTo(this.heights.top(first));
  }

  columns() {
    const probe = document.createElement("span");
    probe.textContent = "0".repeat(100);
    probe.className = "ln-text";
    this.rows.append(probe);
    const letter = probe.getBoundingClientRect().width / 100;
    probe.remove();
    const text = this.rows.querySelector(".ln .ln-text");
    const width = (text ? text.clientWidth : this.box.clientWidth - 240) - 16;
    return Math.max(10, Math.floor(width / (letter || 8)));
  }

  resized() {
    if (this.wrap) this.heights.setColumns(this.columns());
    this.redraw();
  }

  redraw() {
    this.drawn.clear();
    this.rows.replaceChildren();
    this.ask();
  }

  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  draw() {
    const { heights, box, lines } = this;
    this.space.style.height = `${heights.total()}px`;
    if (this.following) this.scrollTo(box.scrollHeight);
    this.remember();
    const first = Math.max(0, heights.indexAt(box.scrollTop) - SPARE);
    const last = Math.min(lines.all.length - 1, heights.indexAt(box.scrollTop + box.clientHeight) + SPARE);
    this.rows.style.transform = `translateY(${heights.top(first)}px)`;
    const kept = new Map();
    for (let index = first; index <= last; index += 1) kept.set(lines.all[index].id, this.rowOf(lines.all[index]));
    for (const [id, row] of this.drawn) if (kept.get(id) !== row) row.remove();
    let place = this.rows.firstElementChild;
    for (const row of kept.values()) {
      if (row === place) place = place.nextElementSibling;
      else this.rows.insertBefore(row, place);
    }
    this.drawn = kept;
    if (first < EDGE && !this.following) this.onEdge("older");
    if (last > lines.all.length - EDGE && !this.isEnd()) this.onEdge("newer");
  }

  remember() {
    const index = this.heights.indexAt(this.box.scrollTop);
    this.anchor = { id: this.lines.all[index]?.id ?? "", offset: this.box.scrollTop - this.heights.top(index) };
  }

  // The row that is drawn already, unless its line has grown since.
  rowOf(line) {
    let row = this.drawn.get(line.id);
    if (row?.shown !== line.shown) {
      row = rowOf(line, { needle: this.needle, columns: this.heights.columns });
      row.shown = line.shown;
    }
    row.classList.toggle("ln-current", line.id === this.current);
    row.classList.toggle("ln-target", line.id === this.target);
    return row;
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const atEnd = scrollHeight - scrollTop - clientHeight < AT_END;
    // Where it was put by a link or a search (the place is the same then) nobody has asked to follow. And who makes the
    // window larger has not scrolled up, though less is above the end then.
    if (scrollTop > this.lastTop && atEnd && this.isEnd()) this.follow(true);
    else if (scrollTop < this.lastTop - 1 && !atEnd) this.follow(false);
    this.lastTop = scrollTop;
    this.ask();
  }

  scrollTo(top) {
    this.box.scrollTop = top;
    this.lastTop = this.box.scrollTop;
  }

  follow(on) {
    if (this.following === on) return;
    this.following = on;
    this.onFollow(on);
    this.ask();
  }

  show(index) {
    this.follow(false);
    this.space.style.height = `${this.heights.total()}px`;
    this.scrollTo(Math.max(0, this.heights.top(index) - this.box.clientHeight / 3));
    this.ask();
  }
}
