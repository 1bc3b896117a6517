// The log viewer: puts lines, view, search and switches together.
import { Lines } from "./lines.js";
import { Search } from "./search.js";
import { View } from "./view.js";

export function startLog(root) {
  const find = (name) => root.querySelector(`[data-log-${name}]`);
  const lines = new Lines();
  let unseen = 0;
  const say = () => {
    const count = lines.all.length;
    if (count) find("lines").textContent = `${count.toLocaleString()} line${count === 1 ? "" : "s"}`;
    find("follow").hidden = view.following;
    const news = unseen ? `, ${unseen.toLocaleString()} new` : "";
    find("follow-word").textContent = `Not following${news}. Follow again (F)`;
  };
  const view = new View(root, lines, {
    onFollow(on) {
      if (on) unseen = 0;
      say();
    },
  });
  const search = new Search(root, lines, view);
  const jump = linkedLine(lines, view);

  root.addEventListener("live", (event) => {
    const before = lines.all.length;
    view.changedFrom(lines.add(event.detail.items));
    if (!view.following) unseen += lines.all.length - before;
    search.look();
    jump();
    say();
  });
  find("follow").addEventListener("click", () => view.follow(true));
  find("view").addEventListener("keydown", (event) => {
    if (event.key === "f" && !event.ctrlKey && !event.metaKey && !event.altKey) view.follow(true);
  });
  startSwitch(find("wrap"), { name: "log-wrap", usual: innerWidth < 860, set: (on) => view.setWrap(on) });
  startSwitch(find("times"), {
    name: "log-times",
    usual: innerWidth >= 860,
    set(on) {
      root.classList.toggle("log-no-times", !on);
      view.resized();
    },
  });
  document.addEventListener("zone", () => view.redraw());
}

// Goes to the line that the address names, once it has come; the address may change later.
function linkedLine(lines, view) {
  let wanted = "";
  const jump = () => {
    const index = wanted ? lines.byId.get(wanted) : undefined;
    if (index === undefined) return;
    [view.target, wanted] = [wanted, ""];
    view.show(index);
  };
  const read = () => {
    wanted = location.hash.match(/^#L-(\d+-\d+)$/)?.[1] ?? "";
    if (wanted) view.follow(false);
    jump();
    if (view.target) view.box.scrollIntoView({ block: "nearest" });
  };
  addEventListener("hashchange", read);
  read();
  return jump;
}

function startSwitch(button, { name, usual, set }) {
  let on = (localStorage.getItem(name) ?? (usual ? "on" : "off")) === "on";
  const apply = () => {
    button.setAttribute("aria-pressed", String(on));
    set(on);
  };
  button.addEventListener("click", () => {
    on = !on;
    localStorage.setItem(name, on ? "on" : "off");
    apply();
  });
  apply();
}
