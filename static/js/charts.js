// Draws the server's figures with Plotly in the page's colours; a change of theme draws them again.
const drawn = new Map();

function coloured(element, figure) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line") };
  const layout = structuredClone(figure.layout);
  for (const key of Object.keys(layout)) if (/^[xy]axis\d?$/.test(key)) layout[key] = { ...axis, ...layout[key] };
  for (const shape of layout.shapes || []) shape.line.color = colour("--muted");
  return {
    data: figure.data.map((trace) => {
      const color = colour(`--series-${trace.meta.slot}`);
      return { ...trace, line: { ...trace.line, color }, marker: { ...trace.marker, color } };
    }),
    layout: {
      ...layout,
      height: (layout.height || 220) + (element.clientWidth < 420 ? 18 * figure.data.length - 10 : 0),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: style.getPropertyValue("--sans"), size: 12, color: colour("--text") },
      hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--line"), font: { color: colour("--text") } },
    },
  };
}

export function draw(element, figure, emptyText) {
  drawn.set(element, [figure, emptyText]);
  if (!figure.data.length) {
    if (element.data) Plotly.purge(element);
    element.textContent = emptyText;
    element.classList.add("empty");
    return;
  }
  if (element.classList.contains("empty")) {
    element.textContent = "";
    element.classList.remove("empty");
  }
  const { data, layout } = coloured(element, figure);
  Plotly.react(element, data, layout, { responsive: true, displayModeBar: false });
}

document.addEventListener("theme", () => { for (const [element, [figure, text]] of drawn) draw(element, figure, text); });
