// Draws the charts in the colours of the page, one after the other, so that the page answers in between.
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
    const settings = { responsive: true, displaylogo: false, displayModeBar: false };
    setTimeout(() => Plotly.react(place, figure.data, layoutOf(figure), settings));
  }
}

draw();
dark.addEventListener("change", draw);
