"use strict";
// A few steps: who owned each instant of the device, its streams, and the threads that launched.
const LANE = 22;

function timelineChart(drawing) {
  const { ink, soft, line, paper } = shades();
  const boxes = drawing.boxes;
  const colours = drawing.accounts.map(colourOf);
  const other = soft;
  const idle = drawing.accounts.map((account) => account.startsWith("idle"));
  const label = (lane, at) => (lane.kind === "thread" && lane.depth ? "" : lane.label);
  const draw = (params, api) => {
    const at = api.value(3);
    const [x, y] = api.coord([api.value(1), api.value(0)]);
    const end = api.coord([api.value(2), api.value(0)])[0];
    const account = boxes.account[at];
    const onLedger = drawing.lanes[boxes.lane[at]].kind === "ledger";
    const height = (api.size([0, 1])[1] - 2) * (onLedger && account >= 0 && idle[account] ? 0.5 : 1);
    const bottom = y + (api.size([0, 1])[1] - 2) / 2;
    const whole = echarts.graphic.clipRectByRect({ x, y: bottom - height, width: Math.max(end - x, 0.5), height }, params.coordSys);
    if (!whole) return null;
    const fill = account >= 0 ? colours[account] : other;
    const name = boxes.count[at] > 1 || boxes.name[at] < 0 ? "" : drawing.names[boxes.name[at]];
    return { type: "rect", shape: whole, style: { fill, stroke: whole.width > 8 ? paper : undefined, lineWidth: 0.5 },
      textContent: whole.width > 40 && height > 12 ? { style: { text: name || (account >= 0 ? drawing.accounts[account].split("/").slice(1).join("/") : ""), fill: account >= 0 ? inkOn(fill) : paper, fontSize: 11, width: whole.width - 6, overflow: "truncate", ellipsis: "…" } } : undefined,
      textConfig: { position: "insideLeft", distance: 3 } };
  };
  return {
    grid: { left: 108, right: 12, top: 22, bottom: 56 },
    tooltip: { ...tooltip(), formatter: ({ data }) => tip(...describe(drawing, data[3])) },
    dataZoom: [
      { type: "inside", filterMode: "weakFilter", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: true, minValueSpan: 1000 },
      { type: "slider", filterMode: "weakFilter", height: 16, bottom: 4, showDetail: false, minValueSpan: 1000, brushSelect: false },
    ],
    xAxis: axis({ type: "value", min: 0, max: drawing.length_ns, axisLabel: { color: soft, formatter: (ns) => (ns / 1e6).toFixed(drawing.length_ns < 2e7 ? 2 : 1) + " ms", hideOverlap: true }, splitLine: { show: false } }),
    yAxis: axis({ type: "category", inverse: true, data: drawing.lanes.map(label), axisTick: { show: false }, splitLine: { show: true, lineStyle: { color: line } }, axisLabel: { color: ink, interval: 0, width: 100, overflow: "truncate", fontSize: 11 } }),
    series: [{ type: "custom", renderItem: draw, animation: false, progressive: 0, clip: true, encode: { x: [1, 2], y: 0 }, data: boxes.lane.map((lane, at) => [lane, boxes.start[at], boxes.start[at] + boxes.length[at], at]),
      markLine: { symbol: "none", silent: true, animation: false, lineStyle: { color: ink, type: "dashed" }, label: { formatter: ({ name }) => name, color: ink, position: "start", rotate: 0, fontSize: 11, distance: 2 }, data: drawing.steps.map(([number, start]) => ({ xAxis: start, name: "step " + number })) } }],
  };
}

// What one box is: its name, its account, its time, and the calls around it.
function describe(drawing, at) {
  const boxes = drawing.boxes;
  const account = boxes.account[at] >= 0 ? drawing.accounts[boxes.account[at]] : "";
  const name = boxes.name[at] >= 0 ? drawing.names[boxes.name[at]] : account || "nothing recorded";
  const path = boxes.path[at] >= 0 ? drawing.paths[boxes.path[at]].map((number) => drawing.names[number]).join(" › ") : "";
  const many = boxes.count[at] > 1;
  return [many ? boxes.count[at] + " too short to be drawn apart, the longest: " + name : name,
    drawing.lanes[boxes.lane[at]].label + (account ? ", " + account : ""),
    (many ? "together " : "") + (boxes.ns[at] / 1000).toLocaleString("en", { maximumFractionDigits: 3 }) + " µs, from " + ms(boxes.start[at]) + " ms", path];
}

// Buttons and keys do what the mouse does.
function steerTimeline(figure, chart, drawing, told) {
  let low = 0, high = 100;
  chart.on("datazoom", () => {
    ({ start: low, end: high } = chart.getOption().dataZoom[0]);
    told.textContent = `Shown: ${ms(low / 100 * drawing.length_ns)} to ${ms(high / 100 * drawing.length_ns)} ms of ${ms(drawing.length_ns)} ms`;
  });
  const act = (what) => {
    const span = high - low, middle = (low + high) / 2;
    let half = span / 2, at = middle;
    if (what === "in") half = span / 4;
    if (what === "out") half = span;
    if (what === "left") at -= span / 4;
    if (what === "right") at += span / 4;
    if (what === "all") { half = 50; at = 50; }
    half = Math.min(Math.max(half, 5e4 / drawing.length_ns), 50);
    at = Math.min(Math.max(at, half), 100 - half);
    chart.dispatchAction({ type: "dataZoom", start: at - half, end: at + half });
  };
  for (const button of figure.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => act(button.dataset.zoom));
  const keys = { "+": "in", "=": "in", "-": "out", "ArrowLeft": "left", "ArrowRight": "right", "0": "all", "Home": "all" };
  figure.querySelector(".chart").addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    act(keys[event.key]);
    event.preventDefault();
  });
}

// The colours of the picture, those with most time first.
function fillLegend(list, drawing) {
  const total = new Map();
  drawing.accounts.forEach((account, at) => {
    const name = account.split("/").slice(0, 2).join("/");
    total.set(name, (total.get(name) || 0) + drawing.totals[at]);
  });
  for (const [name, ns] of [...total].filter(([, ns]) => ns).sort((a, b) => b[1] - a[1]).slice(0, 16)) {
    const item = document.createElement("li"), swatch = document.createElement("i");
    swatch.className = name.startsWith("idle") ? "swatch half" : "swatch";
    swatch.style.setProperty("--c", colourOf(name));
    item.append(swatch, `${name} ${percent(ns / drawing.length_ns)}`);
    list.append(item);
  }
}
