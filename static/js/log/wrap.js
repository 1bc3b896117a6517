// Where a line is broken into rows: after a space where one stands late enough, else at the last letter that goes in.
// The rows are known without drawing them, which the place of each line needs (heights.js).
const LATE = 0.4; // of a row: a longer rest is not left empty for a word

// -> the places, in letters, at which new rows begin
export function breaksOf(text, columns) {
  const found = [];
  for (let from = 0; text.length - from > columns; from = found.at(-1)) {
    const space = text.lastIndexOf(" ", from + columns);
    found.push(space >= from + columns * LATE ? space + 1 : from + columns);
  }
  if (found.at(-1) === text.length) found.pop(); // only a space would stand in the last row
  return found;
}

// Puts the breaks into what is drawn. They are made by the style sheet, so that what is copied has none.
export function breakRows(holder, places) {
  const walker = document.createTreeWalker(holder, NodeFilter.SHOW_TEXT);
  let [at, next] = [0, 0];
  for (let node = walker.nextNode(); node && next < places.length; node = walker.nextNode()) {
    const end = at + node.length;
    if (places[next] < end) {
      const rest = node.splitText(places[next] - at);
      rest.before(Object.assign(document.createElement("span"), { className: "ln-break" }));
      at = places[next];
      next += 1;
    } else at = end;
  }
}
