// Draws the charts in the colours of the page, and lets weak edges of a graph be left out.
const dark = matchMedia("(prefers-color-scheme: dark)");

function colours() {
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = ["--ink", "--line"].map((name) => style.getPropertyValue(name).trim());
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
  return { ink, axis };
}

function layoutOf(figure) {
  const { ink, axis } = colours();
  return {
    ...figure.layout,
    xaxis: { ...axis, ...figure.layout.xaxis },
    yaxis: { ...axis, ...figure.layout.yaxis },
    font: { color: ink, family: "system-ui, sans-serif" },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 60, r: 20, t: 20, b: 50 },
    legend: { orientation: "h", y: -0.25, itemsizing: "constant" },
    height: 340,
  };
}

function draw() {
  for (const place of document.querySelectorAll(".chart")) {
    const figure = figures[place.dataset.figure];
    Plotly.react(place, figure.data, layoutOf(figure), { responsive: true, displaylogo: false, displayModeBar: false });
  }
}

function filtered(drawing) {
  const slider = drawing.querySelector(".weakest");
  if (!slider) return;
  const between = drawing.querySelector(".between");
  const edges = [...drawing.querySelectorAll(".edge")];
  const table = drawing.nextElementSibling?.querySelector("table.edges");
  const rows = table ? [...table.tBodies[0].rows] : [];
  const update = () => {
    const weakest = Number(slider.value);
    let left = 0;
    edges.forEach((edge, place) => {
      const stays = Number(edge.dataset.strength) >= weakest && (!between.checked || edge.dataset.kind === "inter");
      edge.classList.toggle("hidden", !stays);
      rows[place]?.classList.toggle("hidden", !stays);
      left += stays;
    });
    drawing.querySelector(".weakest-value").textContent = weakest.toPrecision(3);
    drawing.querySelector(".count").textContent = `${left} of ${edges.length} edges shown`;
  };
  slider.addEventListener("input", update);
  between.addEventListener("change", update);
  update();
}

if (document.querySelector(".chart")) {
  draw();
  dark.addEventListener("change", draw);
}
document.querySelectorAll(".drawing").forEach(filtered);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
