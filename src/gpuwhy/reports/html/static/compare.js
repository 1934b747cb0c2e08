"use strict";
// Draws a comparison: accounts that grew to the right, those that shrank to the left; and what steps of both sides took.
(() => {
  const found = JSON.parse(document.getElementById("data").textContent);

  const accountsChart = () => {
    const { ink } = shades();
    const rows = [...found.accounts].reverse();
    return {
      grid: { left: 8, right: 72, top: 8, bottom: 8, containLabel: true },
      tooltip: { ...tooltip(), formatter: ({ dataIndex }) => {
        const row = rows[dataIndex];
        const told = row.difference_ns && `between ${ms(row.difference_ns.low)} and ${ms(row.difference_ns.high)} ms, ${row.differs ? "more than noise" : "within noise"}`;
        return tip(row.account, `${ms(row.before_ns)} → ${ms(row.after_ns)} ms a ${found.unit}`, told);
      } },
      xAxis: axis({ type: "value", name: "", axisLabel: { color: ink, formatter: (value) => `${value} ms`, hideOverlap: true } }),
      yAxis: axis({ type: "category", data: rows.map((row) => row.account), axisLabel: { color: ink, width: 220, overflow: "truncate" }, axisLine: { show: false } }),
      series: [{ type: "bar", animation: false, data: rows.map((row) => {
        const change = row.after_ns - row.before_ns;
        return { value: change / 1e6, itemStyle: { color: colourOf(row.account) }, label: { show: true, position: change < 0 ? "left" : "right", color: ink, formatter: `${change < 0 ? "−" : "+"}${ms(Math.abs(change))}` } };
      }) }],
    };
  };

  const stepsChart = () => {
    const { ink } = shades();
    const side = (name, values, colour, symbol) => ({ name, type: "scatter", symbol, symbolSize: 6, animation: false, itemStyle: { color: colour, opacity: 0.7 }, data: values.map((ns, at) => [at + 1, ns / 1e6]) });
    return {
      grid: { left: 8, right: 16, top: 36, bottom: 28, containLabel: true },
      legend: { top: 0, textStyle: { color: ink } },
      tooltip: { ...tooltip(), formatter: ({ seriesName, data }) => tip(`${seriesName}, ${data[0]}`, `${ms(data[1] * 1e6)} ms`) },
      xAxis: axis({ type: "value", name: "in their order", nameLocation: "middle", nameGap: 24, min: 0 }),
      yAxis: axis({ type: "value", name: "ms a step", scale: true, boundaryGap: ["8%", "8%"] }),
      series: [side("before", found.lengths[0], "#0072b2", "circle"), side("after", found.lengths[1], "#d55e00", "triangle")],
    };
  };

  const pictures = new Map();
  if (found.accounts.length) pictures.set("accounts", { options: accountsChart });
  if (found.lengths[0].length || found.lengths[1].length) pictures.set("steps", { options: stepsChart });
  showPictures(pictures);
})();
