// The list of alerts: ticks all of the page at once, and takes over what is new while nobody is about to do something.
import { refresh } from "./refresh.js";

const table = document.getElementById("alerts-table");
const all = document.querySelector("[data-tick-all]");
if (table && all) {
  all.hidden = false;
  all.querySelector("input").addEventListener("change", (event) => {
    for (const box of table.querySelectorAll("input[name=finding]")) box.checked = event.target.checked;
  });
}
if (table) refresh(15);
