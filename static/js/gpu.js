// The GPU page: live values, and the charts of the last hours, asked for anew every ten seconds, its health more seldom.
import { draw } from "./charts.js";
import { connect, fill, state, UNKNOWN_S } from "./live.js";
import { refresh } from "./refresh.js";

const now = document.getElementById("now");
if (document.getElementById("live")) connect({ subscribe: "gpu", id: Number(now.dataset.gpu) }, (frame) => {
  fill(now, frame.metrics, frame.age_s);
  state(frame.age_s, frame.t);
  if (frame.age_s === null) return;
  const unjudged = document.getElementById("unjudged");
  if (unjudged) unjudged.hidden = frame.age_s <= UNKNOWN_S;
  document.getElementById("verdict")?.classList.toggle("past", frame.age_s > UNKNOWN_S);
});

const charts = document.getElementById("charts");
const missing = document.getElementById("missing");
const spans = document.getElementById("spans");

async function load() {
  const chosen = spans.querySelector('[aria-pressed="true"]').dataset.minutes;
  try {
    const answer = await fetch(`${charts.dataset.url}?minutes=${chosen}`);
    if (!answer.ok) throw new Error(answer.statusText);
    const { figures, missing: lines } = await answer.json();
    for (const [slug, figure] of Object.entries(figures)) {
      draw(charts.querySelector(`[data-chart="${slug}"]`), figure, charts.dataset.empty);
    }
    missing.textContent = lines.length
      ? `${missing.dataset.head} ${lines.map((line) => `${line.metric} (${line.reason})`).join(", ")}`
      : "";
  } catch {
    missing.textContent = charts.dataset.failed;
  }
}

async function turn() {
  if (!document.hidden) await load();
  setTimeout(turn, 10000);
}

spans.addEventListener("click", (event) => {
  const button = event.target.closest("[data-minutes]");
  if (!button) return;
  for (const other of spans.children) other.setAttribute("aria-pressed", String(other === button));
  load();
});
turn();
refresh(30);
