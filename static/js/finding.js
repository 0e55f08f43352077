// One finding: the charts of the evidence and of the verdict, and a copy button on each step of the change.
import { draw } from "./charts.js";

async function fill(place) {
  try {
    const answer = await fetch(place.dataset.figures);
    if (!answer.ok) throw new Error(answer.statusText);
    for (const { metric, figure } of (await answer.json()).figures) {
      draw(place.querySelector(`[data-chart="${metric}"]`), figure, place.dataset.empty);
    }
  } catch {
    for (const chart of place.querySelectorAll("[data-chart]")) {
      chart.textContent = place.dataset.failed;
      chart.classList.add("empty");
    }
  }
}
for (const place of document.querySelectorAll("[data-figures]")) fill(place);

function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text }); // plain http has no clipboard API
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return Promise.resolve();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await copy(button.closest(".step").querySelector("code").textContent);
  const label = button.textContent;
  button.textContent = button.dataset.done;
  setTimeout(() => { button.textContent = label; }, 1500);
});
