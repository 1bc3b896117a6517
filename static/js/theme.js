// Sets the theme before the first paint; a classic script on purpose, since modules run after it.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("theme") || "auto";
  const apply = () => {
    const theme = chosen() === "auto" ? (dark.matches ? "dark" : "light") : chosen();
    document.documentElement.dataset.bsTheme = theme;
    document.dispatchEvent(new CustomEvent("theme"));
  };
  dark.addEventListener("change", apply);
  window.relaunchTheme = {
    chosen,
    choose(theme) {
      localStorage.setItem("theme", theme);
      apply();
    },
  };
  apply();
})();
