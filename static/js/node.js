// The node page: live values in the GPU table and of the host.
import { connect, fill, named } from "./live.js";

const table = document.getElementById("gpus");
if (table) {
  const rows = new Map([...table.querySelectorAll("[data-gpu]")].map((row) => [Number(row.dataset.gpu), row]));
  const host = document.getElementById("host");
  connect({ subscribe: "node", id: Number(table.dataset.node) }, (frame) => {
    for (const values of frame.rows.map((row) => named(frame.columns, row))) {
      const row = rows.get(values.id);
      if (row) fill(row, values, values.age_s);
    }
    fill(host, frame.host, frame.host.age_s);
  });
}
