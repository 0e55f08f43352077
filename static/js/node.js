// The node page: live values in the GPU table and of the host; what moves more seldom, engines and commands, is asked for anew.
import { connect, fill, named, state } from "./live.js";
import { refresh } from "./refresh.js";

const table = document.getElementById("gpus");
if (table && document.getElementById("live")) { // what an exporter tells comes with the page alone
  const rows = new Map([...table.querySelectorAll("[data-gpu]")].map((row) => [Number(row.dataset.gpu), row]));
  const host = document.getElementById("host");
  connect({ subscribe: "node", id: Number(table.dataset.node) }, (frame) => {
    const readings = frame.rows.map((row) => named(frame.columns, row));
    for (const values of readings) {
      const row = rows.get(values.id);
      if (row) fill(row, values, values.age_s);
    }
    const ages = readings.map((values) => values.age_s).filter((age) => age !== null);
    state(ages.length ? Math.min(...ages) : null, frame.t);
    fill(host, frame.host, frame.host.age_s);
  });
}

if (document.querySelector("[data-refresh]")) refresh(10);
