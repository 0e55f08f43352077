// A family's page: one chart a block, of the figure that stands beside it.
import { draw } from "./charts.js";

for (const chart of document.querySelectorAll("[data-family-chart]")) {
  draw(chart, JSON.parse(document.getElementById(chart.dataset.familyChart).textContent), "");
}
