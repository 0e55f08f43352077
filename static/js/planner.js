// A planner's page: sliders beside the numbers, and the plan anew a moment after each change, with the inputs in the address.
// Without this script the form is sent by its button.
import { draw } from "./charts.js";

const STEPS = 1000;
const WAIT_MS = 120;
const form = document.getElementById("plan");
const units = JSON.parse(document.getElementById("suffixes").textContent);

function read(text, unit) {
  const found = /^([+-]?[\d.]+(?:e[+-]?\d+)?)\s*(\S*)$/i.exec(text.trim().replaceAll(",", ""));
  const sizes = units[unit]?.read || { "": 1 };
  return found && found[2] in sizes ? Number(found[1]) * sizes[found[2]] : NaN;
}

function written(value, unit, digits) {
  const { read: sizes = { "": 1 }, written: names = [""] } = units[unit] || {};
  const name = names.findLast((one) => Math.abs(value) >= sizes[one]) ?? names[0];
  const shown = Number((value / sizes[name]).toPrecision(digits));
  return `${shown}${name && !/^[MBT%]$/.test(name) ? " " : ""}${name}`;
}

function valueAt(slider) {
  const low = Number(slider.dataset.low);
  const high = Number(slider.dataset.high);
  const share = slider.value / STEPS;
  const value = "decades" in slider.dataset ? low * (high / low) ** share : low + (high - low) * share;
  return "whole" in slider.dataset ? Math.round(value) : value;
}

function place(slider) {
  const input = document.getElementById(slider.dataset.for);
  const low = Number(slider.dataset.low);
  const high = Number(slider.dataset.high);
  const value = read(input.value || input.placeholder, input.dataset.unit);
  slider.classList.toggle("unset", !input.value);
  const known = Number.isFinite(value) && (value > 0 || !("decades" in slider.dataset));
  const share = "decades" in slider.dataset ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  slider.value = known ? Math.round(Math.min(1, Math.max(0, share)) * STEPS) : STEPS / 2;
  slider.setAttribute("aria-valuetext", input.value || input.placeholder);
}

function asked() {
  const query = new URLSearchParams();
  for (const [name, text] of new FormData(form)) if (text) query.set(name, text);
  if (!query.size) query.set(form.elements[0].name, ""); // an address that says nothing is the worked example
  return `${location.pathname}?${query}`;
}

function show() {
  const figure = document.getElementById("figure");
  const drawn = document.getElementById("drawn");
  if (!drawn) return;
  drawn.hidden = !figure;
  if (figure) draw(document.getElementById("plot"), JSON.parse(figure.textContent), "");
}

function take(fresh) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const newer = fresh.getElementById(part.id);
    if (!newer) continue;
    const open = part.querySelector("details")?.open;
    part.replaceChildren(...newer.childNodes);
    if (open && part.querySelector("details")) part.querySelector("details").open = true;
  }
  for (const input of form.querySelectorAll("[id^=in-]")) {
    const newer = fresh.getElementById(input.id);
    if (!newer) continue;
    if (newer.placeholder !== undefined) input.placeholder = newer.placeholder;
    input.toggleAttribute("aria-invalid", newer.hasAttribute("aria-invalid"));
    if (newer.hasAttribute("aria-invalid")) input.setAttribute("aria-invalid", "true");
  }
  for (const slider of form.querySelectorAll("[type=range]")) if (slider !== document.activeElement) place(slider);
  show();
}

let turn = 0;
async function plan(address) {
  const mine = ++turn;
  try {
    const answer = await fetch(address);
    if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine === turn) take(fresh);
  } catch {
    if (mine === turn) document.getElementById("result").textContent = form.dataset.failed;
  }
}

let soon = 0;
function change() {
  clearTimeout(soon);
  soon = setTimeout(() => {
    const address = asked();
    history.replaceState(null, "", address);
    plan(address);
  }, WAIT_MS);
}

for (const slider of form.querySelectorAll("[type=range]")) {
  slider.hidden = false;
  place(slider);
  slider.addEventListener("input", () => {
    const input = document.getElementById(slider.dataset.for);
    const atEnd = slider.value === slider.min || slider.value === slider.max;
    input.value = written(valueAt(slider), input.dataset.unit, atEnd ? 6 : 3);
    slider.classList.remove("unset");
    slider.setAttribute("aria-valuetext", input.value);
  });
}
form.addEventListener("input", (event) => {
  if (event.target.dataset.unit) form.querySelectorAll(`[data-for="${event.target.id}"]`).forEach(place);
  change();
});
form.addEventListener("submit", (event) => { event.preventDefault(); change(); });
form.querySelector("[type=submit]").hidden = true;
show();
