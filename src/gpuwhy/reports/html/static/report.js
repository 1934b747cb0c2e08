"use strict";
// The pictures of a report: which there are, and what each is drawn from.
(() => {
  const shown = JSON.parse(document.getElementById("data").textContent);
  const pictures = new Map();
  const add = (id, options, then) => { if (document.getElementById(id)) pictures.set(id, { options, then }); };

  if (shown.run) add("run", () => runChart(shown.run));
  if (shown.together && shown.together.along_ns.length) add("waterfall", () => waterfallChart(shown));
  for (const device of shown.devices) {
    const { id, drawing } = device;
    add(`${id}-ledger`, () => ledgerChart(device));
    add(`${id}-steps`, () => stepsChart(device));
    if (device.ceilings) add(`${id}-roofline`, () => rooflineChart(device));
    if (drawing) {
      const box = document.getElementById(`${id}-timeline`);
      box.style.height = `${drawing.lanes.length * LANE + 86}px`;
      fillLegend(document.getElementById(`${id}-legend`), drawing);
      add(`${id}-timeline`, () => timelineChart(drawing), (chart) => steerTimeline(box.closest("figure"), chart, drawing, document.getElementById(`${id}-told`)));
    }
  }
  showPictures(pictures);
})();
