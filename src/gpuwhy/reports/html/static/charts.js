"use strict";
// One function a picture: what was reported → options of ECharts.

// The ledger as a treemap: groups, accounts, and what weighs most in each.
function ledgerChart(device) {
  const { ink, line, panel, paper } = shades();
  const node = ({ name, ns, account, count, path, kind, children }) => ({ name, value: ns, account, count, path, children: children.length ? children.map(node) : undefined,
    ...(kind === "weight" ? {} : { itemStyle: { color: colourOf(account) }, label: { color: inkOn(colourOf(account)) } }) });
  const data = device.tree.map(node);
  return {
    tooltip: { ...tooltip(), formatter: ({ data: at, treePathInfo }) => at && tip((at.count ? at.count + " × " : "") + at.name, treePathInfo.slice(1, -1).map((one) => one.name).join(" › "), ms(at.value) + " ms, " + percent(at.value / device.window_ns) + " of the window", (at.path || []).join(" › ")) },
    series: [{ type: "treemap", name: "the window", data, leafDepth: 2, drillDownIcon: "", roam: false, top: 4, bottom: 32, left: 0, right: 0, width: "100%", visibleMin: 40, animation: false,
      breadcrumb: { bottom: 2, itemStyle: { color: panel, borderColor: line, borderWidth: 1, textStyle: { color: ink, fontSize: 12 } }, emphasis: { itemStyle: { color: panel, textStyle: { color: ink } } } },
      label: { formatter: ({ name, value }) => name + "\n" + percent(value / device.window_ns), overflow: "truncate", lineHeight: 16, minMargin: 2 },
      // Of a label in an area, which has two lines; what leads back up has one and is never too small.
      labelLayout: ({ rect, text }) => (text && text.includes("\n") && (rect.width < 44 || rect.height < 36) ? { fontSize: 0 } : {}),
      upperLabel: { show: true, height: 22, color: ink, textBorderWidth: 0, formatter: ({ name, value }) => name + "  " + percent(value / device.window_ns) },
      itemStyle: { borderColor: paper, gapWidth: 1 },
      levels: [{ itemStyle: { borderWidth: 0, gapWidth: 3 }, upperLabel: { show: false } }, { itemStyle: { borderWidth: 2, gapWidth: 1 }, upperLabel: { show: true } }, { upperLabel: { show: false } }] }],
  };
}

// The step today, what each mend takes off it in turn, the step after them.
function waterfallChart({ step_ns, together }) {
  const { ink } = shades();
  const steps = [step_ns, ...together.along_ns];
  const names = ["now", ...together.mends, "after them"];
  const taken = together.along_ns.map((after, at) => Math.max(steps[at] - after, 0));
  const last = together.step_after_ns;
  const gone = { color: "#e69f00", decal: { symbol: "rect", dashArrayX: [1, 0], dashArrayY: [2, 4], rotation: -0.8, color: "rgba(0,0,0,.25)" } };
  return {
    grid: { left: 8, right: 24, top: 24, bottom: 8, containLabel: true },
    tooltip: { ...tooltip(), trigger: "axis", axisPointer: { type: "shadow" }, formatter: ([first]) => {
      const at = first.dataIndex;
      if (at === 0) return tip("now", ms(steps[0]) + " ms a step");
      if (at === names.length - 1) return tip("after them", ms(last.mid) + " ms a step", "between " + ms(last.low) + " and " + ms(last.high));
      return tip(names[at], "takes off " + ms(taken[at - 1]) + " ms", "a step of " + ms(steps[at]) + " ms after it");
    } },
    xAxis: axis({ type: "category", data: names, axisLabel: { interval: 0, rotate: names.length > 5 ? 25 : 0, color: ink } }),
    yAxis: axis({ type: "value", name: "ms a step", axisLabel: { formatter: (value) => value } }),
    series: [
      { type: "bar", stack: "all", silent: true, itemStyle: { color: "transparent" }, data: [0, ...together.along_ns.map((ns) => ns / 1e6), 0], animation: false },
      { type: "bar", stack: "all", animation: false, label: { show: true, position: "top", color: ink, formatter: ({ dataIndex, value }) => (dataIndex && dataIndex < names.length - 1 ? "−" : "") + ms(value * 1e6) },
        data: [{ value: steps[0] / 1e6, itemStyle: { color: "#0072b2" } }, ...taken.map((ns) => ({ value: ns / 1e6, itemStyle: gone })), { value: last.mid / 1e6, itemStyle: { color: "#009e73" } }] },
    ],
  };
}

// Each step's length, busy and idle; start-up steps grey.
function stepsChart({ bars }) {
  const { ink } = shades();
  const many = bars.ns.length > 60;
  const names = bars.first.map((first, at) => (first === bars.last[at] ? String(first) : `${first}–${bars.last[at]}`));
  const part = (name, of, colour) => ({ name, type: "bar", stack: "all", barCategoryGap: "10%", animation: false, itemStyle: { color: colour }, data: bars.ns.map((ns, at) => of(ns, bars.busy_ns[at]) / 1e6) });
  return {
    grid: { left: 8, right: 16, top: 32, bottom: many ? 40 : 8, containLabel: true },
    legend: { textStyle: { color: ink }, top: 0 },
    tooltip: { ...tooltip(), trigger: "axis", axisPointer: { type: "shadow" }, formatter: ([first]) => {
      const at = first.dataIndex, ns = bars.ns[at], busy = bars.busy_ns[at];
      return tip((bars.first[at] === bars.last[at] ? "step " : "mean of steps ") + names[at] + (busy === null ? ", start-up" : ""), ms(ns) + " ms", busy !== null && "busy " + percent(busy / Math.max(ns, 1)));
    } },
    dataZoom: many ? [{ type: "slider", height: 18, bottom: 6 }] : [],
    xAxis: axis({ type: "category", data: names, name: "" }),
    yAxis: axis({ type: "value", name: "ms" }),
    series: [
      part("busy", (ns, busy) => busy || 0, COLOURS.busy),
      part("idle", (ns, busy) => (busy === null ? 0 : ns - busy), COLOURS.idle),
      part("start-up", (ns, busy) => (busy === null ? ns : 0), "#9aa3ad"),
    ],
  };
}

// FLOP/s against FLOPs a byte, both logarithmic, under the device's ceilings.
function rooflineChart(device) {
  const { ink, soft } = shades();
  const of = device;
  const points = of.operators.filter((one) => one.flops_per_s > 0 && one.bytes_per_s > 0);
  const bandwidth = of.ceilings.dram_bytes_per_s;
  const used = new Set(points.map((one) => one.precision));
  const peaks = Object.entries(of.ceilings.flops_per_s).filter(([name]) => used.has(name));
  const xs = points.map((one) => one.flops_per_s / one.bytes_per_s);
  const ridge = peaks.map(([, flops]) => flops / bandwidth);
  const from = Math.min(0.1, ...xs) / 2, to = Math.max(1000, ...xs, ...ridge) * 3;
  const symbols = ["circle", "rect", "triangle", "diamond", "pin", "roundRect"];
  const lines = peaks.map(([name, flops]) => ({ type: "line", name: "ceiling " + name, silent: true, symbol: "none", animation: false, lineStyle: { color: soft, width: 1.5, type: "solid" },
    endLabel: { show: true, color: ink, formatter: name + " " + (flops / 1e12).toLocaleString("en", { maximumSignificantDigits: 4 }) + " TFLOP/s", align: "right", offset: [0, -10] },
    data: [[from, bandwidth * from], [flops / bandwidth, flops], [to, flops]] }));
  const precisions = [...used];
  const dots = precisions.map((precision, at) => ({ type: "scatter", name: precision || "not known", symbol: symbols[at % symbols.length], animation: false,
    symbolSize: (value) => 8 + 40 * Math.sqrt(value[2]), itemStyle: { color: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"][at % 6], opacity: 0.8 },
    data: points.filter((one) => one.precision === precision).map((one) => ({ value: [one.flops_per_s / one.bytes_per_s, one.flops_per_s, one.share], one })) }));
  return {
    grid: { left: 8, right: 24, top: 48, bottom: 28, containLabel: true },
    legend: { data: dots.map((series) => series.name), textStyle: { color: ink }, top: 0 },
    tooltip: { ...tooltip(), formatter: ({ data }) => data && data.one && tip(data.one.name, data.one.dims, (data.one.flops_per_s / 1e12).toPrecision(3) + " TFLOP/s, " + (data.one.bytes_per_s / 1e9).toPrecision(3) + " GB/s", data.one.efficiency !== null && percent(data.one.efficiency) + " of what it could reach, bound: " + data.one.bound, percent(data.one.share) + " of the window, " + data.one.calls + " calls") },
    xAxis: axis({ type: "log", name: "FLOPs a byte", nameLocation: "middle", nameGap: 26, min: from, max: to, axisLabel: { formatter: (value) => +value.toPrecision(1) } }),
    yAxis: axis({ type: "log", name: "FLOP/s", axisLabel: { formatter: (value) => value.toExponential(0) } }),
    series: [...lines, ...dots],
  };
}

// A run on one axis of time: throughput, fractions, memory, the rest; what happened when as bands.
function runChart(scene) {
  const { ink } = shades();
  const rows = [["steps a second", ["rate"]], ["share of time", ["fraction"]], ["memory, GB", ["bytes"]], ["power, W", ["W"]], ["CPU cores busy", ["cores"]]];
  const lines = [{ label: "steps a second", unit: "rate", x: scene.step_s, values: scene.steps_per_s }, ...scene.counters.map((one) => ({ ...one, x: scene.counter_s }))];
  const shown = rows.filter(([, units]) => lines.some((line) => units.includes(line.unit) && line.values.length));
  const height = 100 / Math.max(shown.length, 1);
  const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a51a3"], dashes = ["solid", "dashed", "dotted"];
  const bands = { "start-up": PHASES.start_up, "profile": PHASES.profile, "checkpoint": PHASES.checkpoint, "evaluation": PHASES.evaluation, "compilation": PHASES.compile, "garbage collection": PHASES.gc };
  const end = Math.max(0, ...scene.step_s, ...scene.counter_s);
  let drawn = 0;
  const series = [];
  shown.forEach(([, units], row) => {
    for (const line of lines.filter((one) => units.includes(one.unit))) {
      series.push({ type: "line", name: line.label, xAxisIndex: row, yAxisIndex: row, showSymbol: line.values.length < 3, animation: false, connectNulls: false,
        lineStyle: { width: 1.5, type: dashes[Math.floor(drawn / colours.length) % 3], color: colours[drawn % colours.length] }, itemStyle: { color: colours[drawn % colours.length] },
        data: line.values.map((value, at) => [line.x[at], value === null ? null : line.unit === "bytes" ? value / 1e9 : value]),
        markArea: row === 0 && line.unit === "rate" ? { silent: true, label: { show: false }, data: scene.marks.map(([a, b, what]) => [{ xAxis: a, itemStyle: { color: bands[what] || "#9aa3ad", opacity: 0.25 } }, { xAxis: Math.max(b, a + end / 800) }]) } : undefined });
      drawn += 1;
    }
  });
  return {
    legend: { type: "scroll", textStyle: { color: ink }, top: 0 },
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: { ...tooltip(), trigger: "axis", formatter: (found) => {
      const some = Array.isArray(found) ? found : [found];
      const at = some[0].axisValue;
      const during = [...new Set(scene.marks.filter(([a, b]) => a <= at && at <= b).map(([, , what]) => what))];
      return tip(at.toFixed(2) + " s", ...some.filter((one) => one.data[1] !== null).map((one) => one.seriesName + ": " + +one.data[1].toPrecision(3)), during.join(", "));
    } },
    grid: shown.map((_, row) => ({ left: 64, right: 16, top: `${4 + row * height * 0.92 + 3}%`, height: `${height * 0.92 - 8}%` })),
    xAxis: shown.map((_, row) => axis({ type: "value", gridIndex: row, min: 0, max: end, splitLine: { show: false }, axisLabel: { show: row === shown.length - 1, color: ink, formatter: (value) => `${+value.toPrecision(3)} s` } })),
    yAxis: shown.map(([name], row) => axis({ type: "value", gridIndex: row, name, nameLocation: "end", nameTextStyle: { align: "left", padding: [0, 0, 0, -48], color: ink } })),
    dataZoom: [{ type: "inside", xAxisIndex: shown.map((_, row) => row), zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false }],
    series,
  };
}
