// One finding: the evidence's charts, and a copy button on each step of the change.
import { draw } from "./charts.js";

const evidence = document.getElementById("evidence");
try {
  const answer = await fetch(evidence.dataset.url);
  if (!answer.ok) throw new Error(answer.statusText);
  for (const { metric, figure } of (await answer.json()).figures) {
    draw(evidence.querySelector(`[data-chart="${metric}"]`), figure, evidence.dataset.empty);
  }
} catch {
  for (const chart of evidence.querySelectorAll("[data-chart]")) {
    chart.textContent = evidence.dataset.failed;
    chart.classList.add("empty");
  }
}

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
