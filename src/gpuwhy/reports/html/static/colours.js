"use strict";
// Colours of accounts. What the device did has cool colours, what it waited for warm ones (after Okabe and Ito 2008,
// whose set survives the usual kinds of colour blindness); gaps are half as high as well, so that no colour is alone.
const COLOURS = {
  "busy": "#0072b2", "busy/matmul": "#0072b2", "busy/convolution": "#1f5f8b", "busy/attention": "#56b4e9",
  "busy/softmax": "#8ecae6", "busy/normalization": "#2a9d8f", "busy/elementwise": "#009e73", "busy/reduction": "#66c2a5",
  "busy/indexing": "#4d9078", "busy/optimizer": "#7fb77e", "busy/fused": "#1b7f79", "busy/communication": "#6a51a3",
  "busy/copy": "#9e9ac8", "busy/memset": "#b8c4d6", "busy/other": "#8da0b6",
  "idle": "#d55e00", "idle/input": "#d55e00", "idle/sync": "#e69f00", "idle/copy_call": "#f3c15f", "idle/launch": "#cc79a7",
  "idle/dispatch": "#e0a3c4", "idle/outside_operators": "#a85a86", "idle/allocator": "#c9b400", "idle/compile": "#8c6d1f",
  "idle/serialization": "#b07d2b", "idle/module_load": "#9c7a3c", "idle/host_compute": "#c7724a", "idle/gc": "#8b4a2b",
  "idle/device": "#b5b0a8", "idle/profiler": "#cfc9bf", "idle/untraced": "#8f8880",
};
// Of a whole run; the same for the bands in the picture of its throughput.
const PHASES = {
  "steady": "#0072b2", "input": "#d55e00", "start_up": "#9aa3ad", "warm_up": "#b5b0a8", "compile": "#8c6d1f", "checkpoint": "#b07d2b",
  "evaluation": "#56b4e9", "gc": "#8b4a2b", "profile": "#cc79a7", "spike": "#e69f00", "shut_down": "#8f8880", "no_steps": "#d8cfc2", "not_watched": "#d8cfc2",
};
function colourOf(account) {
  for (let name = account; name; name = name.slice(0, Math.max(name.lastIndexOf("/"), 0))) {
    if (COLOURS[name]) return COLOURS[name];
  }
  return "#9aa3ad";
}
// Relative luminance and contrast as WCAG 2.1 defines them.
function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}
// Of black and white one has a contrast of 4.5 at least on any colour.
function inkOn(colour) {
  return contrast("#000000", colour) > contrast("#ffffff", colour) ? "#000000" : "#ffffff";
}
const ms = (ns) => {
  const value = ns / 1e6;
  if (value >= 100) return value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
  return value >= 10 ? value.toFixed(1) : value >= 0.1 ? value.toFixed(2) : value.toFixed(3);
};
const percent = (share) => (100 * share).toFixed(1) + " %";
// What a chart's tooltip shows: elements with text, never markup, since names come from strangers' programs.
function tip(title, ...lines) {
  const box = document.createElement("div");
  box.className = "tip";
  const head = document.createElement("b");
  head.textContent = title;
  box.append(head);
  for (const line of lines.filter(Boolean)) {
    const row = document.createElement("small");
    row.textContent = line;
    box.append(row);
  }
  return box;
}
function shades() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { ink: of("--ink"), soft: of("--soft"), line: of("--line"), paper: of("--paper"), panel: of("--panel") };
}
function tooltip() {
  const { ink, paper, line } = shades();
  return { confine: true, backgroundColor: paper, borderColor: line, textStyle: { color: ink } };
}
function axis({ axisLabel, ...extra }) {
  const { soft, line } = shades();
  return { axisLabel: { color: soft, ...axisLabel }, nameTextStyle: { color: soft }, axisLine: { lineStyle: { color: soft } }, splitLine: { lineStyle: { color: line } }, axisTick: { lineStyle: { color: soft } }, ...extra };
}
