// Draws the charts from the JSON of the page; tools/scaling_charts.h has its fields. A chart without data stays hidden.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
// For each program: the Chart.js marker, and a similar character for the legend.
const markers = { kolo: ["circle", "\u25cf"], ddp: ["triangle", "\u25b2"], mpi: ["rect", "\u25a0"],
  loop: ["rectRot", "\u25c6"], torchfort: ["crossRot", "\u2715"] };
// For each group of hosts: the dashes of its line, and a similar CSS border.
const lines = [[[], "solid"], [[7, 3], "dashed"], [[2, 2], "dotted"], [[1, 6], "double"]];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const colorOf = (program) => color(program) || color("peer");
const digits = (value) => (value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3))));
const scaled = (interval, factor) => interval && {
  value: factor * interval.value,
  low: factor * interval.low,
  high: interval.high === null ? null : factor * interval.high,
};

const markerOf = (program) => markers[program] || ["star", "\u2217"];
const lineOf = (group) => lines[group % lines.length];

// Black or white, by the luminance of "#rrggbb".
function textOn(background) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(background.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#000000" : "#ffffff";
}

function forEachElement(chart, property, callback) {
  chart.data.datasets.forEach((dataset, index) => {
    if (!dataset[property] || !chart.isDatasetVisible(index)) return;
    chart.getDatasetMeta(index).data.forEach((element, i) => callback(dataset, dataset[property][i], element, i));
  });
}

const isHorizontal = (chart) => chart.options.indexAxis === "y";

// The pixel of the upper end of an interval; of the value if the interval has no upper end.
function endOf(chart, dataset, element, i) {
  const scale = isHorizontal(chart) ? chart.scales.x : chart.scales.y;
  const interval = dataset.intervals && dataset.intervals[i];
  if (interval && interval.high !== null) return scale.getPixelForValue(interval.high);
  return isHorizontal(chart) ? element.x : element.y;
}

// Error bars: dataset.intervals, in units of the value axis.
const errorBars = {
  id: "errorBars",
  afterDatasetsDraw(chart) {
    const { ctx } = chart;
    const cap = 3;
    ctx.save();
    ctx.strokeStyle = color("muted");
    ctx.lineWidth = 1.25;
    forEachElement(chart, "intervals", (dataset, interval, element, i) => {
      if (!interval || interval.high === null) return;
      const end = endOf(chart, dataset, element, i);
      ctx.beginPath();
      if (isHorizontal(chart)) {
        const begin = chart.scales.x.getPixelForValue(interval.low);
        ctx.moveTo(begin, element.y);
        ctx.lineTo(end, element.y);
        for (const x of [begin, end]) {
          ctx.moveTo(x, element.y - cap);
          ctx.lineTo(x, element.y + cap);
        }
      } else {
        const begin = chart.scales.y.getPixelForValue(interval.low);
        ctx.moveTo(element.x, begin);
        ctx.lineTo(element.x, end);
        for (const y of [begin, end]) {
          ctx.moveTo(element.x - cap, y);
          ctx.lineTo(element.x + cap, y);
        }
      }
      ctx.stroke();
    });
    ctx.restore();
  },
};

const boxAround = (x, y, width, height) => ({ left: x - width, right: x + width, top: y - height, bottom: y + height });
const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

function markersOf(chart) {
  const boxes = [];
  forEachElement(chart, "texts", (dataset, text, { x, y }) => boxes.push(boxAround(x, y, 3, 3)));
  return boxes;
}

// Numbers: dataset.inside in the bars that are wide enough, dataset.texts at the ends of bars or above points. The text
// of a point is left out where there is no room.
const numbers = {
  id: "numbers",
  afterDatasetsDraw(chart) {
    const { ctx } = chart;
    ctx.save();
    ctx.font = "10.5px system-ui, 'DejaVu Sans', sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "center";
    forEachElement(chart, "inside", (dataset, text, element) => {
      if (ctx.measureText(text).width + 4 > element.x - element.base) return;
      ctx.fillStyle = textOn(dataset.backgroundColor);
      ctx.fillText(text, (element.x + element.base) / 2, element.y);
    });
    ctx.fillStyle = color("text");
    ctx.strokeStyle = color("card"); // around letters that cross a line
    ctx.lineWidth = 3;
    const taken = isHorizontal(chart) ? [] : markersOf(chart);
    forEachElement(chart, "texts", (dataset, text, element, i) => {
      if (!text) return;
      const end = endOf(chart, dataset, element, i);
      if (isHorizontal(chart)) {
        ctx.textAlign = "left";
        ctx.fillText(text, Math.max(end, element.x) + 5, element.y);
        return;
      }
      const half = ctx.measureText(text).width / 2;
      const below = 2 * element.y - end;
      const place = [[0, end - 11], [0, below + 11], [half + 8, element.y], [-half - 8, element.y]]
        .map(([right, y]) => ({ x: element.x + right, y, ...boxAround(element.x + right, y, half + 1, 6) }))
        .find((box) => box.top >= 0 && box.right <= chart.width && box.bottom <= chart.chartArea.bottom
          && !taken.some((other) => overlap(box, other)));
      if (!place) return;
      taken.push(place);
      ctx.strokeText(text, place.x, place.y);
      ctx.fillText(text, place.x, place.y);
    });
    ctx.restore();
  },
};

function optionsOf({ legend = true, ...extra }) {
  const tip = ({ dataset, dataIndex, parsed }) => {
    const interval = dataset.intervals && dataset.intervals[dataIndex];
    const value = isHorizontal({ options: extra }) ? parsed.x : parsed.y;
    const bounds = !interval ? "" : interval.high === null ? " [?]" : ` [${digits(interval.low)}, ${digits(interval.high)}]`;
    return `${dataset.label}: ${digits(value)}${bounds}`;
  };
  return {
    animation: false,
    maintainAspectRatio: false,
    color: color("text"),
    ...extra,
    plugins: {
      legend: { display: legend, position: "top", labels: { color: color("text"), usePointStyle: true, boxHeight: 7, padding: 10 } },
      tooltip: { callbacks: { label: tip } },
    },
  };
}

const axis = (extra) => ({ grid: { color: color("line"), borderColor: color("line") }, ...extra,
  ticks: { color: color("text"), font: ({ chart }) => ({ size: chart.width < 420 ? 10 : 12 }), ...extra.ticks } });

function addElement(parent, tag, text = "", style = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  Object.assign(element.style, style);
  parent.append(element);
  return element;
}

// One entry for each program and each group of hosts, in place of one for each pair.
function drawLegend(series) {
  const legend = document.getElementById("legend");
  legend.replaceChildren();
  const unique = (field) => [...new Map(series.map((each) => [each[field], each])).values()];
  for (const { program, program_name: name } of unique("program")) {
    const entry = addElement(legend, "span");
    addElement(entry, "b", markerOf(program)[1], { color: colorOf(program) });
    entry.append(name);
  }
  const groups = unique("group");
  for (const { group, group_name: name } of groups.length > 1 ? groups : []) {
    const entry = addElement(legend, "span");
    addElement(entry, "i", "", { borderTopStyle: lineOf(group)[1] });
    entry.append(name);
  }
}

function efficiencyChart() {
  const { series } = data.efficiency;
  const counts = [...new Set(series.flatMap(({ points }) => points.map(({ ranks }) => ranks)))].sort((a, b) => a - b);
  drawLegend(series);
  const hasRoom = series.every(({ group }) => group === series[0].group);
  const datasets = series.map(({ program, program_name: name, group, group_name: hosts, points }) => {
    const intervals = points.map(({ efficiency }) => scaled(efficiency, 100));
    return {
      label: `${name}, ${hosts}`,
      data: points.map(({ ranks }, i) => ({ x: ranks, y: intervals[i].value })),
      intervals,
      texts: points.map(({ ranks }, i) => (ranks === 1 || !(hasRoom || program === "kolo") ? "" : `${digits(intervals[i].value)} %`)),
      borderColor: colorOf(program),
      backgroundColor: colorOf(program),
      borderDash: lineOf(group)[0],
      borderWidth: program === "kolo" ? 2.5 : 1.5,
      pointStyle: markerOf(program)[0],
      pointRadius: 4,
    };
  });
  const margin = 1.12;
  const [first, last] = [counts[0] / margin, counts[counts.length - 1] * margin];
  datasets.push({ label: "ideal", data: [{ x: first, y: 100 }, { x: last, y: 100 }], borderColor: color("muted"),
    borderDash: [1, 3], borderWidth: 1.5, pointRadius: 0, pointStyle: "line" });
  const ticks = { callback: String, autoSkip: false, maxRotation: 0 };
  // The counts whose labels fit. The last count is always included.
  const ticksOf = (scale) => {
    const apart = Math.exp(36 / scale.chart.width * Math.log(last / first));
    return counts.filter((count, i) => i + 1 === counts.length || count * apart < counts[counts.length - 1])
      .reduce((kept, count) => (count < apart * kept[kept.length - 1] ? kept : [...kept, count]), [counts[0]]);
  };
  return {
    type: "line",
    data: { datasets },
    options: optionsOf({
      legend: false,
      scales: {
        x: axis({ type: "logarithmic", min: first, max: last, ticks, title: { display: true, text: "ranks", color: color("text") },
          afterBuildTicks: (scale) => { scale.ticks = ticksOf(scale).map((value) => ({ value })); } }),
        y: axis({ min: 0, suggestedMax: 110, ticks: { callback: (value) => `${value} %` } }),
      },
    }),
  };
}

// Horizontal bars; `room`: for the numbers at their ends.
function barChart(labels, datasets, stacked) {
  const room = 44;
  return {
    type: "bar",
    data: { labels, datasets },
    options: optionsOf({
      indexAxis: "y",
      layout: { padding: { right: room } },
      scales: {
        x: axis({ stacked, beginAtZero: true, ticks: { callback: String } }),
        y: axis({ stacked, ticks: { autoSkip: false }, grid: { display: false } }),
      },
    }),
  };
}

function partsChart() {
  const { names, rows } = data.parts;
  return barChart(rows.map(({ name }) => name), names.map((label, part) => {
    const isLast = part === names.length - 1;
    return {
      label,
      data: rows.map(({ values }) => values[part]),
      inside: rows.map(({ values }) => digits(values[part])),
      texts: isLast ? rows.map(({ step }) => digits(step.value)) : undefined,
      intervals: isLast ? rows.map(({ step }) => step) : undefined,
      backgroundColor: color(`part-${part}`),
      pointStyle: "rect",
      barPercentage: 0.9,
      categoryPercentage: 0.9,
    };
  }), true);
}

function stepBars(label, background, steps) {
  return {
    label,
    data: steps.map((step) => step && step.value),
    intervals: steps,
    texts: steps.map((step) => (step ? digits(step.value) : "")),
    backgroundColor: background,
    pointStyle: "rect",
    barPercentage: 1,
    categoryPercentage: 0.85,
  };
}

const peersChart = () => barChart(data.peers.counts,
  data.peers.series.map(({ name, program, steps }) => stepBars(name, colorOf(program), steps)), false);

const changesChart = () => barChart(data.changes.names, [stepBars("before", color("peer"), data.changes.before),
  stepBars("after", color("part-1"), data.changes.after)], false);

// The cards of the page: which chart, whether there is data for it, and how many bars of which thickness set its height.
const cards = [
  { name: "efficiency", make: efficiencyChart, hasData: () => data.efficiency.series.some(({ points }) => points.length) },
  { name: "parts", make: partsChart, hasData: () => data.parts.rows.length, bars: () => data.parts.rows.length, thinnest: 16 },
  { name: "peers", make: peersChart, hasData: () => data.peers.counts.length,
    bars: () => data.peers.counts.length * data.peers.series.length, thinnest: 11 },
  { name: "changes", make: changesChart, hasData: () => true, bars: () => 2 * data.changes.names.length, thinnest: 11 },
].filter(({ name }) => name in data);

let charts = [];
function draw() {
  charts.forEach((chart) => chart.destroy());
  charts = [];
  for (const { name, make, hasData, bars, thinnest } of cards) {
    if (!hasData()) continue;
    const card = document.getElementById(name);
    card.hidden = false;
    if (bars) {
      const thickness = Math.min(26, Math.max(thinnest, 300 / bars()));
      card.querySelector(".plot").style.height = `${Math.round(80 + bars() * thickness)}px`;
    }
    charts.push(new Chart(card.querySelector("canvas"), { ...make(), plugins: [errorBars, numbers] }));
  }
}

function drawForPrint(isPrint) {
  document.documentElement.classList.toggle("print", isPrint);
  draw();
}

draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("beforeprint", () => drawForPrint(true));
addEventListener("afterprint", () => drawForPrint(false));
