// Live charts of the last 15 minutes, one uPlot each; the values stand as text beside the title.
import { fill, h } from "./dom.js";
import { clock, percent, plain, seconds } from "./format.js";

const SPAN = 900;
const SHORTEST = 120; // the time axis of a chart that has just begun
const LATENCY = { time_to_first_token_seconds: "Time to first token", e2e_request_latency_seconds: "Request latency" };

const KINDS = [
  { id: "requests", title: () => "Requests", format: plain, lines: () => [["running", "running"], ["waiting", "waiting"]] },
  { id: "kv", title: () => "KV cache in use", format: percent, top: 1, lines: () => [["kv", "in use"]] },
  { id: "latency", title: (target) => LATENCY[target.latency] || "Latency", format: seconds,
    lines: () => [["p50", "p50"], ["p95", "p95"], ["mean", "mean"]] },
  { id: "burn", title: () => "Burn rate (1 = just sustainable)", format: plain, level: 1,
    lines: (data) => Object.keys(data).filter((name) => name.startsWith("burn ")).map((name) => [name, name.slice(5)]) },
];

// The lines that have a value somewhere.
const linesOf = (kind, data) =>
  kind.lines(data).filter(([name]) => data[name] && data[name].some((value) => value != null));

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Charts {
  constructor(place) {
    this.place = place;
    this.data = { t: [] };
    this.plots = new Map();
    this.sizes = new ResizeObserver(() => this.plots.forEach((plot) => plot.fit()));
    this.sizes.observe(place);
  }

  history(columns) {
    this.data = columns || { t: [] };
  }

  // The newest point of each column; a name that is new was absent before.
  add(point) {
    const { t: times } = this.data;
    if (point.t == null || (times.length && point.t <= times[times.length - 1])) return;
    times.push(point.t);
    for (const name of Object.keys(point)) {
      if (name !== "t" && !this.data[name]) this.data[name] = new Array(times.length - 1).fill(null);
    }
    for (const [name, column] of Object.entries(this.data)) if (name !== "t") column.push(point[name] ?? null);
    const old = times.findIndex((time) => time >= point.t - SPAN);
    if (old > 60) for (const column of Object.values(this.data)) column.splice(0, old);
  }

  draw(target) {
    this.place.hidden = KINDS.every((kind) => !linesOf(kind, this.data).length);
    for (const kind of KINDS) {
      let plot = this.plots.get(kind.id);
      if (!plot) {
        plot = new Plot(kind);
        this.plots.set(kind.id, plot);
        this.place.append(plot.figure);
      }
      plot.draw(this.data, target);
    }
  }

  // Colours are drawn into the canvas: another scheme needs new plots.
  restyle() {
    this.plots.forEach((plot) => plot.drop());
  }

  close() {
    this.sizes.disconnect();
    this.plots.forEach((plot) => plot.drop());
  }
}

class Plot {
  constructor(kind) {
    this.kind = kind;
    this.caption = h("figcaption");
    this.canvas = h("div", { class: "plot", role: "img" });
    this.figure = h("figure", { class: "chart card" }, this.caption, this.canvas);
    this.uplot = null;
    this.names = "";
  }

  draw(data, target) {
    const lines = linesOf(this.kind, data);
    this.data = data;
    this.lines = lines;
    this.title = this.kind.title(target);
    this.figure.hidden = !lines.length; // not every runtime has it
    this.say(null);
    const names = lines.map(([name]) => name).join("\n");
    if (!lines.length || data.t.length < 2) {
      this.drop();
      return;
    }
    if (this.uplot === null || names !== this.names) {
      this.drop();
      this.names = names;
      this.canvas.replaceChildren();
      this.uplot = new uPlot(this.options(lines), this.columns(lines), this.canvas);
    } else {
      this.uplot.setData(this.columns(lines));
    }
  }

  columns(lines) {
    return [this.data.t, ...lines.map(([name]) => this.data[name])];
  }

  // Title and values: of the cursor's place, else the newest.
  say(index) {
    const last = this.data.t.length - 1;
    const at = index ?? last;
    const parts = this.lines.map(([name, label]) => [label, this.kind.format(this.data[name][at])]);
    fill(this.caption, [
      h("strong", null, this.title + (index == null ? "" : ` at ${clock(this.data.t[at], true)}`)),
      ...parts.map(([label, value], place) => h("span", { class: `key k${place + 1}` }, `${label} `, h("b", null, value))),
    ]);
    if (index == null) {
      this.canvas.setAttribute("aria-label",
        `${this.title}, last 15 minutes. Now: ${parts.map((part) => part.join(" ")).join(", ") || "nothing"}`);
    }
  }

  options(lines) {
    const { format, top, level } = this.kind;
    const ink = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
    return {
      width: Math.max(this.canvas.clientWidth, 120),
      height: this.canvas.clientHeight,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 7 }, sync: { key: "page" } },
      scales: {
        x: { time: true, range: (plot, low, high) => [Math.min(Math.max(low, high - SPAN), high - SHORTEST), high] },
        y: { range: (plot, low, high) => [0, top || Math.max((high || 0) * 1.12, level ? level * 1.25 : 0, 1e-3)] },
      },
      axes: [
        { ...ink, size: 30, space: 70, values: (plot, marks) => marks.map((time) => clock(time, marks[1] - marks[0] < 60)) },
        { ...ink, size: 58, space: 32, values: (plot, marks) => marks.map((value) => format(value)) },
      ],
      series: [{}, ...lines.map(([, label], place) => ({
        label,
        stroke: colour(`--c${place + 1}`),
        width: 2,
        fill: lines.length === 1 ? `${colour(`--c${place + 1}`)}26` : undefined,
        points: { show: false },
      }))],
      hooks: {
        setCursor: [(plot) => this.say(plot.cursor.idx ?? null)],
        draw: level ? [(plot) => this.rule(plot, level)] : [],
      },
    };
  }

  // A dashed line at the level that matters.
  rule(plot, level) {
    const { ctx, bbox } = plot;
    const y = plot.valToPos(level, "y", true);
    ctx.save();
    ctx.strokeStyle = colour("--bad");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([6 * devicePixelRatio, 5 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
  }

  fit() {
    if (this.uplot) this.uplot.setSize({ width: Math.max(this.canvas.clientWidth, 120), height: this.canvas.clientHeight });
  }

  drop() {
    if (this.uplot) this.uplot.destroy();
    this.uplot = null;
  }
}
