// The page's one websocket. An element with data-stream="name" (and data-cursor) gets a "live" event with the items that
// came after its cursor. The socket only reads; every action is a form. The dot [data-live] says whether the page is live.

const SHORTEST = 500, LONGEST = 15_000, PING = 20_000, ANSWER = 10_000, DEAD_AFTER = 5_000;
const SIGNED_OUT = 4401, NOT_ALLOWED = 4403;
const cursors = new Map(); // stream -> the cursor this page has reached
let socket = null, pause = SHORTEST, retry = 0, lastHeard = 0, lostAt = null, build = null, refused = false;

function wanted() {
  const streams = new Map();
  for (const element of document.querySelectorAll("[data-stream]")) {
    if (!streams.has(element.dataset.stream)) streams.set(element.dataset.stream, element.dataset.cursor);
  }
  return streams;
}

function startingPoint(text) {
  if (text === undefined || text === "") return null;
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

function say(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function follow() {
  const streams = wanted();
  for (const name of [...cursors.keys()].filter((known) => !streams.has(known))) {
    cursors.delete(name);
    say({ op: "unsub", s: name });
  }
  for (const [name, cursor] of streams) {
    if (cursors.has(name)) continue;
    cursors.set(name, startingPoint(cursor));
    say({ op: "sub", s: name, cursor: cursors.get(name) });
  }
}

function hear(frame) {
  if (frame.op === "hello") {
    if (build !== null && build !== frame.build) document.dispatchEvent(new CustomEvent("live:build"));
    build = frame.build;
  } else if (frame.s && cursors.has(frame.s)) {
    if (frame.error === undefined) cursors.set(frame.s, frame.cursor);
    const kind = frame.error === undefined ? "live" : "live:error";
    for (const element of document.querySelectorAll(`[data-stream="${CSS.escape(frame.s)}"]`)) {
      element.dispatchEvent(new CustomEvent(kind, { bubbles: true, detail: frame }));
    }
  }
}

function show(state, word) {
  for (const dot of document.querySelectorAll("[data-live]")) {
    if (dot.dataset.state === state && dot.dataset.word === word) continue;
    Object.assign(dot.dataset, { state, word });
    (dot.querySelector("[data-live-word]") ?? dot).textContent = word;
  }
  document.documentElement.dataset.live = state;
}

function showState() {
  if (socket?.readyState === WebSocket.OPEN) return show("live", "live");
  lostAt ??= new Date();
  if (Date.now() - lostAt < DEAD_AFTER) return show("reconnecting", "reconnecting");
  const at = lostAt.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  show("dead", `not live since ${at}`);
}

function connect() {
  clearTimeout(retry);
  if (socket && socket.readyState <= WebSocket.OPEN) return;
  const opened = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/`);
  socket = opened;
  opened.onopen = () => {
    [pause, lastHeard, lostAt, refused] = [SHORTEST, Date.now(), null, false];
    say({ op: "hello", v: 1 });
    for (const [name, cursor] of cursors) say({ op: "sub", s: name, cursor });
    follow();
    showState();
  };
  opened.onmessage = (event) => {
    lastHeard = Date.now();
    hear(JSON.parse(event.data));
  };
  opened.onclose = (event) => {
    if (socket !== opened) return;
    refused = event.code === SIGNED_OUT || event.code === NOT_ALLOWED;
    lostAt ??= new Date();
    showState();
    if (refused) return; // tried again when somebody looks at the page
    retry = setTimeout(connect, pause * (0.5 + Math.random() / 2));
    pause = Math.min(pause * 2, LONGEST);
  };
}

function watch() {
  if (socket?.readyState === WebSocket.OPEN) {
    if (Date.now() - lastHeard > PING + ANSWER) socket.close(); // half-open: nobody answers any more
    else if (Date.now() - lastHeard > PING) say({ op: "ping" });
  }
  showState();
}

function connectNow() {
  if (document.visibilityState === "hidden") return;
  pause = SHORTEST;
  connect();
}

function start() {
  follow();
  connect();
  setInterval(watch, 1_000);
  addEventListener("online", connectNow);
  document.addEventListener("visibilitychange", connectNow);
  new MutationObserver(follow).observe(document.body, { childList: true, subtree: true });
}

// Not before every module of the page listens: a stream that has ended says all it has once, and at once.
if (document.readyState === "complete") start();
else document.addEventListener("DOMContentLoaded", start, { once: true });
