// One live view over /ws/live/: frames once a second, reconnecting by itself. A reading older than 30 s is unknown.
import { reading } from "./units.js";

export const STALE_S = 10;
export const UNKNOWN_S = 30;

export function connect(subscription, onFrame) {
  const mark = document.getElementById("live");
  let wait = 1000;
  let watch = 0;
  const say = (on) => {
    if (!mark) return;
    mark.textContent = on ? mark.dataset.on : mark.dataset.off;
    mark.classList.toggle("on", on);
  };
  const open = () => {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live/`);
    socket.onopen = () => socket.send(JSON.stringify(subscription));
    socket.onmessage = (event) => {
      const frame = JSON.parse(event.data);
      if (frame.type === "error") return;
      wait = 1000;
      say(true);
      clearTimeout(watch);
      watch = setTimeout(() => say(false), 5000);
      onFrame(frame);
    };
    socket.onclose = () => {
      say(false);
      setTimeout(open, wait * (0.5 + Math.random()));
      wait = Math.min(wait * 2, 30000);
    };
  };
  open();
}

// Write one value into its cell; an absent one as a dash with its reason: the page's own, or `why`.
export function put(cell, value, why) {
  const absent = typeof value !== "number";
  cell.dataset.reason ??= cell.title;
  cell.textContent = reading(value, cell.dataset.unit);
  cell.classList.toggle("absent", absent);
  if (absent) {
    cell.title = why || cell.dataset.reason || cell.closest("[data-absent]").dataset.absent;
    cell.tabIndex = 0; // the keyboard reaches the reason too
  } else {
    cell.removeAttribute("title");
    cell.removeAttribute("tabindex");
  }
  const note = cell.nextElementSibling;
  if (note?.matches(".note")) note.hidden = !absent;
}

// Grey from 10 s on; from 30 s on nothing of it is shown as if it were true.
export function fill(root, values, age) {
  root.classList.toggle("stale", age === null || age > STALE_S);
  if (age === null) return; // the server has heard nothing since it started: what the page knew stays, greyed
  const unknown = age > UNKNOWN_S;
  root.classList.toggle("unknown", unknown);
  for (const cell of root.querySelectorAll("[data-metric]")) {
    if (unknown) put(cell, null, root.closest("[data-unknown]").dataset.unknown);
    else if (cell.dataset.metric in values) put(cell, values[cell.dataset.metric]);
  }
}

// What the head of the page says of the node: reporting, or unknown since when.
export function state(age, now) {
  const root = document.getElementById("state");
  if (!root) return;
  const [on, off] = root.children;
  const unknown = age === null ? !off : age > UNKNOWN_S;
  document.getElementById("live").hidden = unknown; // nothing is live of a node that is silent
  if (age === null) return;
  if (!off) { // the page was made while the node was silent
    if (!unknown) location.reload();
    return;
  }
  on.hidden = unknown;
  off.hidden = !unknown;
  if (unknown) off.querySelector("time").textContent = `${new Date((now - age) * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export const named = (columns, row) => Object.fromEntries(columns.map((name, index) => [name, row[index]]));
