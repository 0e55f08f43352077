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

// Write one value into its cell. An absent one keeps the reason that the page gave; a stale one is greyed.
export function put(cell, value) {
  const absent = typeof value !== "number";
  cell.textContent = reading(value, cell.dataset.unit);
  cell.classList.toggle("absent", absent);
  if (!absent) cell.removeAttribute("title");
}

export function fill(root, values, age) {
  const unknown = age === null || age > UNKNOWN_S;
  root.classList.toggle("stale", age === null || age > STALE_S);
  if (unknown) return; // what stands there stays, greyed
  for (const cell of root.querySelectorAll("[data-metric]")) {
    if (cell.dataset.metric in values) put(cell, values[cell.dataset.metric]);
  }
}

export const named = (columns, row) => Object.fromEntries(columns.map((name, index) => [name, row[index]]));
