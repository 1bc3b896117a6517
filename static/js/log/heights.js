// Where each line stands. Without wrapping every line is one row high; with it the rows follow from the letters (wrap.js),
// since the font is monospaced.
import { breaksOf } from "./wrap.js";

export class Heights {
  constructor(lines, { row }) {
    this.lines = lines;
    this.row = row;
    this.columns = 0; // 0: no wrapping
    this.tops = [0]; // tops[i] = rows above line i; kept for lines before `known`
    this.known = 0;
  }

  setColumns(columns) {
    this.columns = columns;
    this.forgetFrom(0);
  }

  forgetFrom(index) {
    this.known = Math.min(this.known, index);
  }

  rowsOf(line) {
    return line.plain.length <= this.columns ? 1 : breaksOf(line.plain, this.columns).length + 1;
  }

  measure() {
    const { all } = this.lines;
    for (let i = this.known; i < all.length; i += 1) this.tops[i + 1] = this.tops[i] + this.rowsOf(all[i]);
    this.known = all.length;
  }

  top(index) {
    if (!this.columns) return index * this.row;
    this.measure();
    return this.tops[index] * this.row;
  }

  total() {
    return this.top(this.lines.all.length);
  }

  indexAt(y) {
    const last = Math.max(0, this.lines.all.length - 1);
    const wanted = Math.max(0, Math.floor(y / this.row));
    if (!this.columns) return Math.min(last, wanted);
    this.measure();
    let [low, high] = [0, last];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= wanted) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
