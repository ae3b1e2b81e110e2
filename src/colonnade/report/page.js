// Lets weak edges of a graph be left out, and opens everything for print.
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

document.querySelectorAll(".drawing").forEach(filtered);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
