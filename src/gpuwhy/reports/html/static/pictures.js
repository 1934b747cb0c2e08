"use strict";
// Draws each picture when it comes near the screen, sorts tables, and changes between light and dark. `pictures` are by the
// id of their element: `options` makes what is drawn, `then` is told of the chart once.
function showPictures(pictures) {
  const charts = new Map();
  // The library takes every turn of the wheel, also where it does nothing with it: without Ctrl the page's own is left.
  for (const chart of document.querySelectorAll(".chart")) {
    for (const kind of ["wheel", "mousewheel"]) chart.addEventListener(kind, (event) => { if (!event.ctrlKey) event.stopPropagation(); }, { capture: true, passive: true });
  }
  for (const name of document.querySelectorAll("[data-account]")) {
    const swatch = name.querySelector(".swatch");
    if (swatch) swatch.style.setProperty("--c", colourOf(name.dataset.account));
  }

  for (const phase of document.querySelectorAll("[data-phase]")) phase.style.setProperty("--c", PHASES[phase.dataset.phase.split("/")[0]] || "#9aa3ad");

  const draw = (id) => {
    const { options, then } = pictures.get(id);
    const fresh = !charts.has(id);
    const chart = charts.get(id) || echarts.init(document.getElementById(id), null, { renderer: "canvas" });
    charts.set(id, chart);
    const [zoom] = (!fresh && chart.getOption().dataZoom) || [];
    chart.setOption(options(), { notMerge: true });
    if (zoom) chart.dispatchAction({ type: "dataZoom", start: zoom.start, end: zoom.end });
    if (fresh && then) then(chart);
  };
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      draw(entry.target.id);
    }
  }, { rootMargin: "300px" });
  for (const id of pictures.keys()) near.observe(document.getElementById(id));
  const sized = new ResizeObserver((entries) => { for (const entry of entries) { const chart = charts.get(entry.target.id); if (chart) chart.resize(); } });
  for (const id of pictures.keys()) sized.observe(document.getElementById(id));
  window.addEventListener("beforeprint", () => { for (const id of pictures.keys()) if (!charts.has(id)) draw(id); });

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const worth = (row, at) => { const cell = row.cells[at]; return cell.dataset.v === undefined ? cell.textContent.toLowerCase() : Number(cell.dataset.v); };
    heads.forEach((head, at) => head.firstElementChild.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && !head.classList.contains("n"));
      for (const one of heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows].sort((a, b) => { const [x, y] = [worth(a, at), worth(b, at)]; return (x < y ? -1 : x > y ? 1 : 0) * (down ? 1 : -1); });
      table.tBodies[0].append(...rows);
    }));
  }

  const button = document.getElementById("theme"), root = document.documentElement;
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const tell = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", dark() ? "Change to light colours" : "Change to dark colours"); };
  const repaint = () => { tell(); for (const id of charts.keys()) draw(id); };
  button.hidden = false;
  button.removeAttribute("aria-pressed");
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; repaint(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  tell();
}
