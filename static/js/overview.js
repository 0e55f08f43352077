// The fleet page: a canvas with one cell a GPU, grouped by node, and the counts beside it. First frame by fetch, then live.
import { connect, put, STALE_S, UNKNOWN_S } from "./live.js";
import { refresh } from "./refresh.js";
import { reading } from "./units.js";

const words = JSON.parse(document.getElementById("words").textContent);
const map = document.getElementById("map");

const METRICS = {
  sm_active: { unit: "ratio", share: (gpu) => gpu.sm_active, low: "0 %", high: "100 %" },
  gpu_util_pct: { unit: "percent", share: (gpu) => divided(gpu.gpu_util_pct, 100), low: "0 %", high: "100 %" },
  mem_used_bytes: { unit: "bytes", share: (gpu) => divided(gpu.mem_used_bytes, gpu.mem_total_bytes), low: "0 %", high: "100 %" },
  power_w: { unit: "watts", share: (gpu) => divided(gpu.power_w, gpu.power_limit_w), low: "0 %", high: "100 %" },
  temperature_c: { unit: "celsius", share: (gpu) => divided(known(gpu.temperature_c) ? gpu.temperature_c - 25 : null, 65), low: "25 °C", high: "90 °C" },
};
const known = (value) => typeof value === "number";
const divided = (value, whole) => (known(value) && known(whole) && whole > 0 ? value / whole : null);

class HeatMap {
  constructor(root) {
    this.root = root;
    this.canvas = root.querySelector("canvas");
    this.tip = root.querySelector(".tip");
    this.metric = "sm_active";
    this.nodes = [];
    this.gpus = new Map();
    this.byId = new Map();
    this.places = [];
    this.focus = -1;
    new ResizeObserver(() => this.draw()).observe(root);
    document.addEventListener("theme", () => this.draw());
    this.canvas.addEventListener("pointermove", (event) => this.point(this.at(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("pointerleave", () => this.point(-1));
    this.canvas.addEventListener("blur", () => this.point(-1));
    this.canvas.addEventListener("click", (event) => this.open(this.at(event.offsetX, event.offsetY), event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  async load() {
    this.loadedAt = Date.now();
    const answer = await fetch(this.root.dataset.url).catch(() => null);
    if (!answer?.ok) return;
    const { nodes, gpus, heard, values } = await answer.json();
    const byId = new Map(nodes.map((node) => [node.id, { ...node, gpus: [] }]));
    this.gpus = new Map(gpus.map(([id, node, index], place) => {
      const gpu = { id, index, node: byId.get(node), age_s: heard[place] ? 0 : null };
      for (const [name, column] of Object.entries(values)) gpu[name] = column[place];
      gpu.node.gpus.push(gpu);
      return [id, gpu];
    }));
    this.byId = byId;
    this.nodes = [...byId.values()].filter((node) => node.gpus.length);
    this.draw();
  }

  live(frame) {
    const names = frame.columns;
    const id = names.indexOf("id");
    for (const row of frame.rows) {
      const gpu = this.gpus.get(row[id]);
      if (gpu) names.forEach((name, place) => { if (name !== "id" && name !== "node") gpu[name] = row[place]; });
    }
    const strange = frame.rows.length !== this.gpus.size || frame.rows.some((row) => !this.gpus.has(row[id]));
    const since = Date.now() - this.loadedAt; // strange: new GPUs, or some that this server process does not hear
    if (since > (strange ? 10000 : 60000)) this.load();
    this.draw();
  }

  // Cell size, columns of node tiles and their places, for as many nodes as there are.
  layout(width) {
    const many = this.nodes.length;
    const most = Math.max(1, ...this.nodes.map((node) => node.gpus.length));
    const narrow = width < 520;
    this.cell = many <= 48 ? (narrow ? 19 : 27) : many <= 240 ? 15 : 9;
    this.head = many <= 240 ? 18 : 0;
    this.gap = many <= 48 ? 2 : 1;
    const across = Math.min(most, 8);
    const tile = across * (this.cell + this.gap) + (many <= 240 ? 14 : 5);
    const columns = Math.max(1, Math.floor((width + 10) / tile));
    this.step = width / columns > tile * 1.6 ? tile : width / columns;
    this.wide = Math.floor((this.step - (tile - across * (this.cell + this.gap))) / across) - this.gap;
    this.places = [];
    const rowsOf = (node) => Math.ceil(node.gpus.length / across);
    let top = 0;
    for (let start = 0; start < many; start += columns) {
      const line = this.nodes.slice(start, start + columns);
      line.forEach((node, column) => {
        node.x = column * this.step;
        node.y = top;
        node.gpus.forEach((gpu, place) => this.places.push({
          gpu,
          x: node.x + (place % across) * (this.wide + this.gap),
          y: top + this.head + Math.floor(place / across) * (this.cell + this.gap),
        }));
      });
      top += this.head + Math.max(...line.map(rowsOf)) * (this.cell + this.gap) + (many <= 240 ? 10 : 4);
    }
    this.tile = this.step;
    return top;
  }

  draw() {
    const width = this.root.clientWidth;
    if (!width || !this.nodes.length) return;
    const height = this.layout(width);
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.ramp = Array.from({ length: 9 }, (_, step) => colour(`--heat-${step}`));
    this.inks = [colour("--heat-ink-low"), colour("--heat-ink-high")];
    const [muted, line, text, stale] = ["--muted", "--line", "--text", "--heat-stale"].map(colour);
    if (this.head) {
      pen.textBaseline = "alphabetic";
      for (const node of this.nodes) {
        pen.font = `12px ${style.getPropertyValue("--sans")}`;
        pen.fillStyle = this.silent(node) ? muted : text;
        pen.fillText(clipped(pen, (node.recording ? "◷ " : "") + node.name, this.tile - 12), node.x, node.y + 12);
      }
    }
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = `11px ${style.getPropertyValue("--sans")}`;
    this.places.forEach((place, index) => this.cellAt(pen, place, { line, muted, stale, text }, index === this.focus));
    pen.textAlign = "start";
  }

  // A node without GPUs is as silent as the server's last map said; of others their GPUs tell.
  silent(node) { return node.gpus.length ? node.gpus.every((gpu) => this.unknown(gpu)) : node.stale; }

  unknown(gpu) { return gpu.age_s === null || gpu.age_s > UNKNOWN_S; }

  cellAt(pen, { gpu, x, y }, { line, muted, stale, text }, focused) {
    const size = this.cell;
    const wide = this.wide;
    const share = METRICS[this.metric].share(gpu);
    if (this.unknown(gpu)) {
      pen.fillStyle = stale;
      pen.fillRect(x, y, wide, size);
      pen.strokeStyle = muted;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x + 3, y + size - 3);
      pen.lineTo(x + wide - 3, y + 3);
      pen.stroke();
    } else if (!known(share)) {
      pen.strokeStyle = muted;
      pen.setLineDash([2, 2]);
      pen.strokeRect(x + 0.5, y + 0.5, wide - 1, size - 1);
      pen.setLineDash([]);
    } else {
      const level = Math.min(8, Math.max(0, Math.round(share * 8)));
      pen.globalAlpha = gpu.age_s > STALE_S ? 0.5 : 1;
      pen.fillStyle = this.ramp[level];
      pen.fillRect(x, y, wide, size);
      if (size >= 18) {
        pen.fillStyle = level >= 5 ? this.inks[1] : this.inks[0];
        const value = this.metric === "temperature_c" ? gpu.temperature_c : share * 100;
        pen.fillText(String(Math.round(value)), x + wide / 2, y + size / 2 + 0.5);
      }
      pen.globalAlpha = 1;
    }
    if (focused) {
      pen.strokeStyle = text;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y - 1, wide + 2, size + 2);
    }
  }

  at(x, y) {
    return this.places.findIndex((place) => x >= place.x && x < place.x + this.wide && y >= place.y && y < place.y + this.cell);
  }

  // The GPU drawn nearest in the row of cells below (way 1) or above (way -1); the same one at the edge.
  beside(index, way) {
    const from = this.places[index];
    const beyond = this.places.filter((place) => (place.y - from.y) * way > 0);
    const row = Math.min(...beyond.map((place) => (place.y - from.y) * way));
    const near = beyond.filter((place) => (place.y - from.y) * way === row);
    const gap = (place) => Math.abs(place.x - from.x);
    return near.length ? this.places.indexOf(near.reduce((best, place) => (gap(place) < gap(best) ? place : best))) : index;
  }

  point(index) {
    if (index === this.focus) return;
    this.focus = index;
    this.draw();
    this.tip.hidden = index < 0;
    this.canvas.style.cursor = index < 0 ? "" : "pointer";
    if (index < 0) return;
    const { gpu, x, y } = this.places[index];
    const lines = [`${gpu.node.name} · GPU ${gpu.index}${gpu.node.recording ? ` · ${words.recording}` : ""}`];
    if (this.unknown(gpu)) {
      lines.push(`${words.stale} ${gpu.node.since ? utc(gpu.node.since) : "–"}`);
    } else {
      for (const [name, { unit }] of Object.entries(METRICS)) {
        lines.push(`${words.metrics[name]}: ${known(gpu[name]) ? reading(gpu[name], unit) : words.absent}`);
      }
    }
    this.tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
    const left = Math.min(x, this.root.clientWidth - this.tip.offsetWidth - 4);
    this.tip.style.transform = `translate(${Math.max(0, left)}px, ${y + this.cell + 8}px)`;
  }

  open(index, event) {
    if (index < 0) return;
    const url = this.root.dataset.gpuUrl.replace(/0\/$/, `${this.places[index].gpu.id}/`);
    if (event.ctrlKey || event.metaKey) window.open(url, "_blank", "noopener");
    else location.assign(url);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const line = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step || line) {
      const next = line && this.focus >= 0 ? this.beside(this.focus, line) : this.focus + (step || line);
      this.point(Math.min(this.places.length - 1, Math.max(0, next)));
      event.preventDefault();
    } else if (event.key === "Enter") this.open(this.focus, event);
  }
}

function clipped(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  while (text && pen.measureText(`${text}…`).width > room) text = text.slice(0, -1);
  return `${text}…`;
}

const utc = (at) => `${new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
const filled = (text, total) => (total ? text.replace("{total}", reading(total, "count")) : "");

// The table's rows, by the same rule as the server's by_node.
function nodes(heat, now) {
  for (const row of document.querySelectorAll("#nodes [data-node]")) {
    const node = heat.byId.get(Number(row.dataset.node));
    if (!node) continue;
    const heard = node.gpus.filter((gpu) => !heat.unknown(gpu));
    const silent = heat.silent(node);
    if (heard.length) node.since = now - Math.min(...heard.map((gpu) => gpu.age_s));
    row.classList.toggle("stale", silent);
    row.querySelector('[data-state="on"]').hidden = silent;
    const off = row.querySelector('[data-state="off"]');
    off.hidden = !silent;
    if (silent && node.since) off.lastElementChild.textContent = `${words.stale} ${utc(node.since)}`;
    const of = (value) => heard.map(value).filter(known);
    const activity = of((gpu) => gpu.sm_active ?? divided(gpu.gpu_util_pct, 100));
    const [sm, power] = [of((gpu) => gpu.sm_active), of((gpu) => gpu.power_w)];
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const values = {
      busy: activity.length ? activity.filter((value) => value >= 0.01).length : null,
      sm_active: sm.length ? sum(sm) / sm.length : null,
      power_w: power.length ? sum(power) : null,
    };
    const reasons = row.closest("[data-unknown]").dataset;
    const why = heard.length ? reasons.absent : reasons.unknown;
    for (const cell of row.querySelectorAll("[data-value]")) put(cell, values[cell.dataset.value], why);
  }
}

// Counts over the same GPUs and by the same rule as the server's summary.
function count(heat) {
  const gpus = [...heat.gpus.values()];
  const counts = { busy: 0, idle: 0, stale: 0 };
  let unmeasured = 0;
  let power = 0;
  let from = 0;
  for (const gpu of gpus) {
    if (gpu.age_s === null || gpu.age_s > UNKNOWN_S) { counts.stale += 1; continue; }
    const activity = gpu.sm_active ?? divided(gpu.gpu_util_pct, 100);
    if (known(activity)) counts[activity >= 0.01 ? "busy" : "idle"] += 1;
    else unmeasured += 1;
    if (known(gpu.power_w)) { power += gpu.power_w; from += 1; }
  }
  const write = (name, text) => {
    const cell = document.querySelector(`[data-count="${name}"]`);
    if (cell && cell.textContent !== text) cell.textContent = text;
  };
  for (const [name, total] of Object.entries(counts)) write(name, reading(total, "count"));
  write("unmeasured", filled(words.unmeasured, unmeasured));
  write("silent", filled(words.silent, [...heat.byId.values()].filter((node) => heat.silent(node)).length));
  write("power", from ? reading(power, "watts") : "–");
  write("power_from", words.power_from.replace("{from}", reading(from, "count")).replace("{of}", reading(gpus.length, "count")));
}

if (map) {
  const heat = new HeatMap(map);
  await heat.load();
  connect({ subscribe: "fleet" }, (frame) => {
    if (document.hidden) return;
    heat.live(frame);
    count(heat);
    nodes(heat, frame.t);
  });
  document.getElementById("map-metric").addEventListener("click", (event) => {
    const button = event.target.closest("[data-map]");
    if (!button) return;
    heat.metric = button.dataset.map;
    for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
    document.querySelector('[data-scale="low"]').textContent = METRICS[heat.metric].low;
    document.querySelector('[data-scale="high"]').textContent = METRICS[heat.metric].high;
    heat.draw();
  });
}
refresh(30);
