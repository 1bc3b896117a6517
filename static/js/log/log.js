// The log viewer: puts lines, window, view, search and switches together.
import { Lines } from "./lines.js";
import { Search } from "./search.js";
import { View } from "./view.js";
import { Window } from "./window.js";
import { isTyping } from "../keys.js";

const PRINTED = 200; // lines on paper

export function startLog(root) {
  const find = (name) => root.querySelector(`[data-log-${name}]`);
  const lines = new Lines();
  let unseen = 0;
  const say = () => {
    if (win.total) find("lines").textContent = `${win.total.toLocaleString()} line${win.total === 1 ? "" : "s"}`;
    find("follow").hidden = view.following;
    const news = unseen ? `, ${unseen.toLocaleString()} new` : "";
    // A job that has ended writes nothing more that could be followed.
    const over = document.querySelector("[data-job-over]") !== null;
    find("follow-word").textContent = over ? "To the end (F)" : `Not following${news}. Follow again (F)`;
  };
  const view = new View(root, lines, {
    onFollow(on) {
      if (on) unseen = 0;
      if (on && win.hasNewer) win.show({});
      say();
    },
    onEdge: (edge) => (edge === "older" ? win.fetchOlder() : win.fetchNewer()),
    isEnd: () => !win.hasNewer,
  });
  const win = new Window(lines, {
    url: root.dataset.log,
    hasOlder: Number(root.dataset.cursor) > 0,
    isFollowing: () => view.following,
    onChange(kind, changed) {
      if (kind === "more") view.changedFrom(changed);
      else if (kind === "other") view.replaced();
      else view.ask();
      say();
    },
  });
  // Shows the line with an id; it is fetched when it is not held here. Of several that were asked for the last one counts.
  let wanted = "";
  const go = async (place, id) => {
    view.follow(false);
    wanted = id;
    await win.isIdle();
    if (wanted === id && !lines.byId.has(id)) await win.show(place);
    if (wanted === id && lines.byId.has(id)) view.show(lines.byId.get(id));
  };
  const goToStart = async () => {
    view.follow(false);
    if (win.hasOlder) await win.show({ line: 1 });
    view.show(0);
  };
  const search = new Search(root, view, { win, go });
  followLinks(lines, view, { win, go });

  let isFirst = true; // what was written before the page was opened is no news
  root.addEventListener("live", (event) => {
    const before = lines.all.length;
    const elsewhere = win.hear(event.detail.items);
    if (!view.following && !isFirst) unseen += elsewhere + Math.max(0, lines.all.length - before);
    isFirst = false;
    search.look();
    say();
  });
  find("follow").addEventListener("click", () => view.follow(true));
  find("view").addEventListener("keydown", (event) => {
    if (event.key === "Home") goToStart();
    else if (event.key === "End") view.follow(true);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => event.key === "f" && !isTyping(event) && view.follow(true));
  find("step").addEventListener("change", (event) => {
    win.step = event.target.value;
    win.show({}).then(() => view.follow(true));
    search.begin();
  });
  startSwitches(root, find, view);
  addEventListener("beforeprint", () => print(find("print"), lines));
}

function startSwitches(root, find, view) {
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

// Goes to the line that the address names: #L123, or #L-SEQ-N for what the panel itself points at; it may change later.
function followLinks(lines, view, { win, go }) {
  const read = async () => {
    const [, number, id] = location.hash.match(/^#L(?:(\d{1,9})|-(\d+-\d+))$/) ?? [];
    if (!number && !id) return;
    view.follow(false);
    if (id) await go({ around: id.split("-")[0] }, id);
    else if (lines.indexOf(Number(number)) < 0) await win.show({ line: number });
    view.target = id ?? lines.all[lines.indexOf(Number(number))]?.id ?? "";
    view.redraw();
    if (lines.byId.has(view.target)) view.show(lines.byId.get(view.target));
    view.box.scrollIntoView({ block: "nearest" });
  };
  addEventListener("hashchange", read);
  read();
}

// On paper: the end of what is held here.
function print(place, lines) {
  place.textContent = lines.all.slice(-PRINTED).map((line) => `${line.number}  ${line.plain}`).join("\n");
  place.hidden = false;
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
