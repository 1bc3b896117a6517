// On paper nothing can be unfolded: what is folded is printed open, and folded again afterwards.
export function startPaper() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not([open])")].filter((part) => !part.querySelector("form"));
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
}
