// Terminal colours to classes. Colours and weights are understood; every other escape is taken out.
const ESCAPE = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/g;
const WEIGHTS = { 1: "a-bold", 2: "a-dim", 3: "a-italic", 4: "a-underline" };
const ENDS = { 22: ["a-bold", "a-dim"], 23: ["a-italic"], 24: ["a-underline"] };

export const plainText = (raw) => raw.replace(ESCAPE, "").replace(CONTROL, "");

function paint(style, codes) {
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) [style.color, style.weights] = [null, new Set()];
    else if (WEIGHTS[code]) style.weights.add(WEIGHTS[code]);
    else if (ENDS[code]) ENDS[code].forEach((name) => style.weights.delete(name));
    else if (code === 39) style.color = null;
    else if (code >= 30 && code <= 37) style.color = code - 30;
    else if (code >= 90 && code <= 97) style.color = code - 90;
    else if (code === 38 || code === 48) at += codes[at + 1] === 2 ? 4 : 2; // a colour of the large palette
  }
}

// -> [{ text, classes }]; the texts together are plainText(raw)
export function segments(raw) {
  const style = { color: null, weights: new Set() };
  const found = [];
  let from = 0;
  const take = (to) => {
    const text = raw.slice(from, to).replace(CONTROL, "");
    if (!text) return;
    const color = style.color === null ? [] : [`a-${style.color}`];
    found.push({ text, classes: [...color, ...style.weights].join(" ") });
  };
  for (const match of raw.matchAll(ESCAPE)) {
    take(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") paint(style, (match[1] || "0").split(";").map(Number));
  }
  take(raw.length);
  return found;
}
