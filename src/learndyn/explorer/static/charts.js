// Charts by uPlot: theory as lines, runs on top, marks where landmarks fall, shaded spans.
import {element} from "./controls.js";

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const COLOURS = 6, HEIGHT = 340, MOST_DECADES = 6, DASHES = [undefined, [7, 4], [2, 3]];
export const short = value => value === null ? "none"
  : value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(2).replace(/\.?0*e/, "e") : String(+value.toPrecision(3));

const isDecade = v => v !== null && Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9;

const LEAST = 1e-300;  // on logarithmic axes; smaller numbers lose their digits
// uPlot's own never end below 1e-16, as its numbers have no more decimals.
const logSplits = (low, high) => {
  const splits = [], inside = v => v >= low && v <= high;
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += 1)
    splits.push(...[1, 2, 3, 4, 5, 6, 7, 8, 9].map(digit => Number(`${digit}e${e}`)).filter(inside));
  return splits.length > 1 ? splits : [low, high];
};

// What is drawn as points: also a single value, such as before a divergence, as no line leads to it.
const isPoints = s => s.style === "points"
  || (["theory", "other"].includes(s.style) && s.y.filter(v => v !== null && v !== undefined).length === 1);

export class Chart {
  #spec; #plot = null; #shape = ""; #runs = []; #queued = false;

  constructor() {
    this.title = element("h2");
    this.boxes = {x: element("input", {type: "checkbox"}), y: element("input", {type: "checkbox"})};
    const labels = Object.entries(this.boxes).map(([axis, box]) => element("label", {}, box, ` log ${axis}`));
    this.plot = element("div", {className: "plot"});
    this.plot.setAttribute("role", "img");
    this.legend = element("p", {className: "legend"});
    this.element = element("figure", {}, element("figcaption", {}, this.title, element("span", {}, ...labels)),
      this.plot, this.legend);
    for (const box of Object.values(this.boxes)) box.addEventListener("change", () => { this.draw(); this.moved?.(); });
  }

  show(spec, axes) {
    const first = this.#spec?.title !== spec.title;
    this.#spec = spec;
    this.title.textContent = spec.title;
    for (const [axis, box] of Object.entries(this.boxes)) box.setAttribute("aria-label", `log ${axis} of ${spec.title}`);
    if (first) for (const axis of ["x", "y"]) this.boxes[axis].checked = axes?.[axis] ?? spec[axis].log;
    this.draw();
  }

  get streams() { return this.#spec?.streams ?? ""; }
  get axes() { return {x: this.boxes.x.checked, y: this.boxes.y.checked}; }
  // What is drawn, for tests and for the text that stands for the chart.
  get drawn() { return {x: this.#spec.at, series: this.#spec.series, runs: this.#runs}; }

  clearRuns() { this.#runs = []; }

  addRows(run, first, rows) {
    const length = this.#spec.at.length;
    rows.forEach((row, i) => {
      while (this.#runs.length <= run + i) this.#runs.push(Array(length).fill(null));
      row.forEach((value, j) => { this.#runs[run + i][first + j] = value; });
    });
    if (this.#queued) return;
    this.#queued = true;
    requestAnimationFrame(() => { this.#queued = false; this.draw(); });
  }

  draw() {
    const spec = this.#spec;
    if (!spec || !this.plot.clientWidth) return;
    const log = this.axes, series = this.#series(), keep = this.#kept(log.x, series);
    // On a logarithmic axis the edge of a band that falls below zero lies at the lowest value.
    const lowest = series.reduce((low, s) => s.y.reduce((l, v) => v >= LEAST && v < l ? v : l, low), Infinity);
    const placed = (v, style) => log.y && v < LEAST ? (style === "edge" && lowest < Infinity ? lowest : null) : v;
    const clean = s => keep.map(i => s.y[i] === null || s.y[i] === undefined ? null : placed(s.y[i], s.style));
    const data = [keep.map(i => spec.at[i]), ...series.map(clean)];
    const shape = JSON.stringify([log, this.plot.clientWidth, series.map(s => [s.name, s.style, isPoints(s)]), spec.band,
      spec.x.label, spec.y.label, colour("--ink")]);
    if (this.#plot && this.#shape === shape) this.#plot.setData(data);
    else {
      this.#plot?.destroy();
      this.#plot = new uPlot(this.#options(series, log), data, this.plot);
      this.#shape = shape;
    }
    this.#describe(series);
  }

  #series() {
    const runs = this.#runs.map((y, i) => ({name: `run ${i + 1}`, y, style: "run"}));
    return [...runs, ...this.#spec.series];
  }

  // Without the end at which nothing has a value, such as after a divergence.
  #kept(logx, series) {
    const at = this.#spec.at, known = i => series.some(s => s.y[i] !== null && s.y[i] !== undefined);
    const last = at.findLastIndex((_, i) => known(i));
    return at.map((_, i) => i).filter(i => at[i] !== null && i <= last && (!logx || at[i] > 0));
  }

  #line(series) {
    const index = series.colour;
    const of = index === null || index === undefined ? {run: "--run", edge: "--theory"}[series.style] ?? "--theory"
      : `--c${index % COLOURS}`;
    const width = {theory: 2.5, run: 1.2, edge: 0.5}[series.style] ?? 1.6;
    const points = isPoints(series);
    return {label: series.name, stroke: colour(of), width: points ? 0 : width,
      dash: DASHES[series.dash ?? 0], pxAlign: 0, points: {show: points, size: 5, fill: colour(of)}};
  }

  #options(series, log) {
    const ink = colour("--ink"), spec = this.#spec;
    // Over many decades the lines between them would run together.
    const few = splits => splits.filter(isDecade).length > MOST_DECADES ? splits.map(v => isDecade(v) ? v : null) : splits;
    const lines = logged => ({stroke: colour("--grid"), width: 1, filter: (_, splits) => logged ? few(splits) : splits});
    const axis = (label, logged, size) => ({label, labelSize: 24, size, stroke: ink, grid: lines(logged), ticks: lines(logged),
      labelFont: "13px sans-serif", font: "12px sans-serif",
      ...logged && {splits: (u, axis, low, high) => logSplits(low, high)},
      values: (_, splits) => {
        const sparse = logged && splits.filter(isDecade).length > 1;
        return splits.map(v => v === null || (sparse && !isDecade(v)) ? "" : short(v));
      }});
    const bands = spec.band ? [{series: [spec.band.above, spec.band.below].map(name => 1 + series.findIndex(s => s.name === name)),
      fill: colour("--theory") + "33"}] : [];
    return {width: this.plot.clientWidth, height: HEIGHT, legend: {show: false}, bands,
      cursor: {drag: {x: true, y: false}},
      scales: {x: {time: false, distr: log.x ? 3 : 1}, y: {distr: log.y ? 3 : 1}},
      axes: [axis(spec.x.label, log.x, 44), axis(spec.y.label, log.y, 66)],
      series: [{}, ...series.map(s => this.#line(s))],
      hooks: {drawClear: [u => this.#spans(u)], draw: [u => this.#marks(u)]}};
  }

  #spans(u) {
    const {left, top, width, height} = u.bbox, context = u.ctx;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    for (const span of this.#spec.spans) {
      const [from, to] = [span.begin, span.end].map(v => u.valToPos(v, "x", true));
      context.fillStyle = colour("--run") + "40";
      context.fillRect(from, top, Math.max(to - from, 3 * devicePixelRatio), height);
    }
    context.restore();
  }

  #marks(u) {
    const {left, top, width, height} = u.bbox, context = u.ctx;
    context.save();
    context.font = `${12 * devicePixelRatio}px sans-serif`;
    context.globalAlpha = 1;  // the last curve drawn leaves its own
    context.lineWidth = 1.5 * devicePixelRatio;
    context.strokeStyle = context.fillStyle = colour("--good");
    context.setLineDash([6, 5]);
    for (const mark of this.#spec.marks) {
      const place = Math.round(u.valToPos(mark.at, mark.axis, true)), along = mark.axis === "y";
      const inside = along ? place >= top && place <= top + height : place >= left && place <= left + width;
      if (!inside) continue;
      context.beginPath();
      if (along) { context.moveTo(left, place); context.lineTo(left + width, place); }
      else { context.moveTo(place, top); context.lineTo(place, top + height); }
      context.stroke();
      const end = along || place > left + width / 2;
      this.#text(context, mark.label, end, along ? left + width - 6 : place + (end ? -6 : 6),
        along ? place - 5 : top + 14 * devicePixelRatio);
    }
    context.restore();
  }

  #bandInWords() {
    if (!this.#spec.band) return [];
    const swatch = element("span", {className: "swatch filled"});
    swatch.style.background = colour("--theory") + "33";
    return [element("span", {}, swatch, this.#spec.band.name)];
  }

  // On the ground's colour: a curve or another mark may lie below.
  #text(context, label, end, x, y) {
    const {width} = context.measureText(label), size = 12 * devicePixelRatio;
    context.save();
    context.fillStyle = colour("--ground");
    context.globalAlpha = 0.8;
    context.fillRect(end ? x - width - 2 : x - 2, y - size, width + 4, size + 3);
    context.restore();
    context.textAlign = end ? "right" : "left";
    context.fillText(label, x, y);
  }

  // The legend in words, and the text that a screen reader says for the picture.
  #describe(series) {
    const shown = series.filter((s, i) => s.style !== "edge" && (s.style !== "run" || i === 0));
    this.legend.replaceChildren(...(shown.length > 12 ? [] : shown.map(s => {
      const swatch = element("span", {className: `swatch ${isPoints(s) ? "dot" : `dash${s.dash ?? 0}`}`});
      swatch.style.borderColor = this.#line(s).stroke;
      return element("span", {}, swatch, s.style === "run" ? `${this.#runs.length} network${this.#runs.length === 1 ? "" : "s"}` : s.name);
    })), ...this.#bandInWords());
    const ends = shown.slice(0, 6).map(s => {
      const known = s.y.filter(v => v !== null && v !== undefined);
      return known.length ? `${s.name} from ${short(known[0])} to ${short(known.at(-1))}` : `${s.name}: no values`;
    });
    if (this.#spec.band) ends.push(this.#spec.band.name);
    const marks = [...this.#spec.marks, ...this.#spec.spans].map(m => m.label);
    const about = `${this.#spec.title}: ${this.#spec.y.label} against ${this.#spec.x.label}`;
    this.plot.setAttribute("aria-label", [about, ...ends, ...marks].join("; "));
  }
}
