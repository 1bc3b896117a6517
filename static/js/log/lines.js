// Chunks to lines. A chunk may hold several lines and end in the middle of one; the next chunk of the same source goes on
// with it. A line is known by the chunk it begins in and its number there (seq, n), and by its number in the whole log,
// which the panel counts (deployments/loglines.py): links to it survive a reload.
import { plainText } from "./ansi.js";

const TAB = "        ";

// What a terminal would show: after a carriage return the line is written anew.
function lastState(raw) {
  if (!raw.includes("\r")) return raw;
  const states = raw.split("\r").filter((state) => state !== "");
  return states.length ? states[states.length - 1] : "";
}

export class Lines {
  constructor() {
    this.clear();
  }

  clear() {
    this.all = [];
    this.byId = new Map(); // "seq-n" -> index
    this.open = new Map(); // source -> index of a line that has not ended
  }

  // Takes chunks; returns the index of the first line that is new or changed.
  add(items) {
    let changed = this.all.length;
    for (const item of items) changed = Math.min(changed, this.addChunk(item));
    return changed;
  }

  indexOf(number) {
    return this.all.findIndex((line) => line.number === number);
  }

  addChunk(item) {
    let first = this.all.length;
    if (item.text) first = this.addText(item, first);
    else if (item.dropped) this.pushDropped(item);
    return first;
  }

  addText(item, begin) {
    let first = begin;
    const pieces = item.text.replaceAll("\r\n", "\n").replaceAll("\t", TAB).split("\n");
    const ended = pieces[pieces.length - 1] === "";
    if (ended) pieces.pop();
    const goesOn = pieces.length > item.lines; // with a line that begins in an earlier chunk
    pieces.forEach((piece, n) => {
      const open = n === 0 && goesOn ? this.open.get(item.source) : undefined;
      if (open === undefined) return this.push(item, n, piece, item.line + n - (goesOn ? 1 : 0));
      this.byId.set(`${item.seq}-0`, open);
      first = Math.min(first, this.extend(open, piece));
    });
    if (ended) this.open.delete(item.source);
    else if (pieces.length > 1 || !this.open.has(item.source)) this.open.set(item.source, this.all.length - 1);
    return first;
  }

  push(item, n, raw, number) {
    const shown = lastState(raw);
    const line = { id: `${item.seq}-${n}`, number, source: item.source, at: item.at, raw, shown, plain: plainText(shown) };
    this.byId.set(line.id, this.all.length);
    this.all.push(line);
  }

  extend(index, piece) {
    const line = this.all[index];
    const raw = line.raw + piece;
    line.shown = lastState(raw);
    // The states before the last one are forgotten, or a progress bar of an hour would be kept whole.
    line.raw = raw.endsWith("\r") ? `${line.shown}\r` : line.shown;
    line.plain = plainText(line.shown);
    return index;
  }

  pushDropped(item) {
    const text = `${item.dropped.toLocaleString()} bytes of the server's log were dropped here`;
    this.open.delete(item.source);
    this.push({ ...item, source: "panel" }, "dropped", text, item.line);
  }
}
