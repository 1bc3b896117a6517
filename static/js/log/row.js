// One line as an element. Everything is text; nothing of a log is ever markup.
import { parts } from "../times.js";
import { segments } from "./ansi.js";
import { breakRows, breaksOf } from "./wrap.js";

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function marked(text, from, hits) {
  const pieces = [];
  let at = 0;
  for (const [start, end] of hits) {
    const [a, b] = [Math.max(start - from, at), Math.min(end - from, text.length)];
    if (a >= b) continue;
    pieces.push(text.slice(at, a), element("mark", "", text.slice(a, b)));
    at = b;
  }
  return [...pieces, text.slice(at)];
}

function hitsIn(plain, needle) {
  const hits = [];
  const text = needle ? plain.toLowerCase() : "";
  for (let at = needle ? text.indexOf(needle) : -1; at !== -1; at = text.indexOf(needle, at + needle.length)) {
    hits.push([at, at + needle.length]);
  }
  return hits;
}

function textOf(line, needle, columns) {
  const holder = element("span", "ln-text");
  const hits = hitsIn(line.plain, needle);
  let from = 0;
  for (const { text, classes } of segments(line.shown)) {
    const piece = element("span", classes);
    piece.append(...marked(text, from, hits));
    holder.append(piece);
    from += text.length;
  }
  if (columns && line.plain.length > columns) breakRows(holder, breaksOf(line.plain, columns));
  return holder;
}

// columns: letters in a row; 0 for a line that is not wrapped
export function rowOf(line, { needle, columns }) {
  const row = element("div", `ln ln-${line.source === "panel" ? "panel" : "server"}`);
  row.id = `L${line.number}`;
  const link = element("a", "ln-no", String(line.number));
  link.href = `#L${line.number}`;
  link.tabIndex = -1;
  const at = parts(new Date(line.at));
  const time = element("span", "ln-time", at.clock);
  time.title = `${at.day} ${at.clock} ${at.zone}`;
  row.append(link, element("span", "ln-source", line.source === "panel" ? "relaunch" : "server"), time, textOf(line, needle, columns));
  return row;
}
