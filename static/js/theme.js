// Sets the theme before the first paint; a classic script on purpose, since modules run after it.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("theme") || "auto";
  let onPaper = false; // which is white
  const apply = () => {
    const theme = chosen() === "auto" ? (dark.matches ? "dark" : "light") : chosen();
    document.documentElement.dataset.bsTheme = onPaper ? "light" : theme;
    document.dispatchEvent(new CustomEvent("theme"));
  };
  dark.addEventListener("change", apply);
  for (const [event, now] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => {
      onPaper = now;
      apply();
    });
  }
  window.relaunchTheme = {
    chosen,
    choose(theme) {
      localStorage.setItem("theme", theme);
      apply();
    },
  };
  apply();
})();
