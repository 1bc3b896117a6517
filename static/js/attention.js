// What waits for you and what failed: in the tab's title, and, for those who have asked for it, as a notification of the
// browser. Nobody is asked for the permission but by the button [data-notify].
const TOLD = "notified", WANTED = "notify", MOST_TOLD = 100;
const title = document.title;

const toldBefore = () => JSON.parse(localStorage.getItem(TOLD) || "[]");
const isOn = () => localStorage.getItem(WANTED) === "on" && Notification.permission === "granted";

function say(all) {
  const waiting = all.filter((item) => item.kind === "waiting");
  const failed = all.filter((item) => item.kind !== "waiting");
  const names = [...new Set(failed.map((item) => item.deployment))];
  if (waiting.length) document.title = `(${waiting.length}) Waiting for you · ${title}`;
  else if (failed.length) document.title = `${names.length > 1 ? `Trouble: ${names.length} deployments` : failed[0].title} · ${title}`;
  else document.title = title;
}

// Each is told once in this browser, by whichever page is first; who looks at the panel sees it there.
function notify(all) {
  if (!("Notification" in window)) return;
  const told = toldBefore();
  const fresh = all.filter((item) => !told.includes(item.key));
  if (!fresh.length) return;
  localStorage.setItem(TOLD, JSON.stringify([...told, ...fresh.map((item) => item.key)].slice(-MOST_TOLD)));
  if (!isOn() || document.hasFocus()) return;
  for (const item of fresh) {
    const shown = new Notification(item.title, { body: item.text, tag: item.key });
    shown.onclick = () => {
      window.focus();
      location.assign(item.path);
    };
  }
}

function startButton(button) {
  if (!button || !("Notification" in window)) return;
  button.hidden = false;
  const show = () => {
    const refused = Notification.permission === "denied";
    button.setAttribute("aria-pressed", String(isOn()));
    button.disabled = refused;
    button.title = refused ? "This browser's settings forbid notifications of the panel" : "When a job waits for you or fails";
    button.querySelector("[data-notify-word]").textContent = isOn() ? "Notifies you" : "Notify me";
  };
  button.addEventListener("click", async () => {
    localStorage.setItem(WANTED, isOn() ? "off" : "on");
    if (localStorage.getItem(WANTED) === "on") await Notification.requestPermission();
    show();
  });
  show();
}

export function startAttention() {
  startButton(document.querySelector("[data-notify]"));
  document.querySelector("[data-attention]")?.addEventListener("live", (event) => {
    for (const { all } of event.detail.items) {
      say(all);
      notify(all);
    }
  });
}
