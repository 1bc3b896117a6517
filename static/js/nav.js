// The menu on a phone, and the theme switch.
const THEMES = ["auto", "light", "dark"];

export function startNav() {
  startMenu(document.querySelector("[data-nav-toggle]"), document.getElementById("nav"));
  startTheme(document.querySelector("[data-theme-toggle]"));
}

function startMenu(button, nav) {
  const show = (open) => {
    document.body.classList.toggle("nav-open", open);
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => show(!document.body.classList.contains("nav-open")));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.body.classList.contains("nav-open")) {
      show(false);
      button.focus();
    }
  });
  document.getElementById("content").addEventListener("click", () => show(false));
  nav.addEventListener("click", (event) => event.target.closest("a") && show(false));
}

function startTheme(button) {
  const word = button.querySelector("[data-theme-word]");
  const say = () => (word.textContent = `Theme: ${window.relaunchTheme.chosen()}`);
  button.addEventListener("click", () => {
    const next = (THEMES.indexOf(window.relaunchTheme.chosen()) + 1) % THEMES.length;
    window.relaunchTheme.choose(THEMES[next]);
    say();
  });
  say();
}
