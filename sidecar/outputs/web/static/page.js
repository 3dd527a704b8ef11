// The status page: server-sent events in, the least change of the document out.
import { Charts } from "./charts.js";
import { fill, h, table } from "./dom.js";
import { DASH, bytes, clock, percent, plain, seconds } from "./format.js";
import { Members, models, overview } from "./fleet.js";
import { Signals } from "./signals.js";
import { HEALTH, LIMITS, PHASES, RESOURCES, SEVERITIES, because } from "./words.js";

const $ = (id) => document.getElementById(id);
const MOST_PROBLEMS = 6; // the gravest; the others are a click away
const OPEN_AT_MOST = 3; // more targets than this begin closed

const charts = new Map(); // target → Charts
const signals = new Map(); // target → Signals
const ids = new Map(); // target → a name that may stand in an id
let state = null;
let members = null; // the fleet role's table of sidecars
let received = 0;
let past = {};

const idOf = (name) => ids.get(name) || ids.set(name, `t${ids.size}`).get(name);

function show() {
  const bad = state.problems.filter((problem) => problem.severity === "bad").length;
  const warn = state.problems.filter((problem) => problem.severity === "warn").length;
  const words = [bad && `${bad} to mend now`, warn && `${warn} to look at soon`].filter(Boolean).join(", ");
  const found = state.targets.length || state.fleet;
  const summary = words || (found ? "All is well" : "No target yet: looking for a runtime on this host");
  text($("summary"), summary);
  $("summary").className = bad ? "bad" : warn ? "warn" : "good";
  text($("version"), state.version);
  document.title = bad + warn ? `(${bad + warn}) inference-sidecar` : "inference-sidecar";
  showProblems();
  showFleet();
  fill($("answers"), state.targets.length ? [h("div", { class: "glance" }, state.targets.map(glance))] : []);
  fill($("targets"), state.targets.map(target));
  $("gpus").hidden = !state.gpus.length;
  fill($("gpus"), [h("div", { class: "card" }, gpuTable(state.gpus))]);
  liven();
  ages();
}

// The fleet role's page: no targets, many sidecars.
function showFleet() {
  $("fleet").hidden = !state.fleet;
  if (!state.fleet) return;
  fill($("fleet"), [overview(state.fleet), models(state.fleet),
    h("details", { class: "card", id: "sidecars" }, h("summary", null, "Sidecars"), h("div", { "data-keep": "members" }))]);
  if (!members) {
    members = new Members($("fleet").querySelector("[data-keep=members]"));
    document.querySelector("footer").append(" ", h("a", { href: "v1/fleet" }, "/v1/fleet"));
  }
}

function text(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

function showProblems() {
  const section = $("problems");
  const grave = state.problems.filter((problem) => problem.severity !== "note");
  const notes = state.problems.filter((problem) => problem.severity === "note");
  section.hidden = !state.problems.length;
  const list = (problems) => h("ul", { class: "problems" }, problems.map((problem) =>
    h("li", { class: problem.severity },
      h("span", { class: "severity" }, SEVERITIES[problem.severity]),
      h("span", { class: "where" }, problem.where),
      h("div", { class: "wrap" }, problem.what, " ", h("span", { class: "mend" }, problem.mend)))));
  const later = grave.slice(MOST_PROBLEMS);
  fill(section, [
    ...(grave.length ? [list(grave.slice(0, MOST_PROBLEMS))] : []),
    ...(later.length ? [h("details", { id: "later" }, h("summary", null, `${later.length} more problems`), list(later))] : []),
    ...(notes.length ? [h("details", { id: "notes" },
      h("summary", null, notes.length === 1 ? "1 note" : `${notes.length} notes`), list(notes))] : []),
  ]);
}

function glance(one) {
  const answer = (question, given) => h("div", { class: `answer ${given.level}` },
    h("h3", null, question), h("strong", null, given.text), given.detail && h("p", null, given.detail));
  return h("article", null,
    h("div", { class: "who" },
      h("a", { href: `#${idOf(one.name)}` }, one.name), " ",
      h("span", { class: `badge ${HEALTH[one.health]}` }, one.health),
      h("p", null, [one.runtime, one.version].filter(Boolean).join(" ") || "runtime unknown"),
      h("p", null, "read ", h("span", { "data-age": one.age ?? "" }))),
    answer("Do users suffer?", one.users), answer("Why?", one.cause), answer("What next?", one.outlook));
}

function target(one) {
  const id = idOf(one.name);
  const models = one.models.slice(0, 4).join(", ") + (one.models.length > 4 ? ` and ${one.models.length - 4} more` : "");
  const running = [one.runtime, one.version].filter(Boolean).join(" ");
  return h("details", { class: "target", id, open: state.targets.length <= OPEN_AT_MOST },
    h("summary", null, h("h2", null, one.name, " ", h("span", { class: `badge ${HEALTH[one.health]}` }, one.health), " ",
      h("small", null, [running, one.engine !== running && one.engine].filter(Boolean).join(", engine "), models && ` serves ${models}`))),
    h("dl", { class: "facts card" }, facts(one).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    h("div", { class: "charts", "data-keep": "charts" }),
    h("div", { class: one.scaling.length > 1 ? "pair many" : "pair" }, one.slos.length > 0 && sloTable(one), one.scaling.length > 0 && scaling(one)),
    h("details", { class: "card", id: `${id}-scrapes` },
      h("summary", null, `Last ${one.scrapes.length} scrapes`), scrapes(one.scrapes)),
    h("details", { class: "card", id: `${id}-signals` },
      h("summary", null, "Signals and where they come from"), h("div", { "data-keep": "signals" })));
}

function facts(one) {
  const now = one.now;
  const rows = [
    ["Requests/s", plain(now.requests)],
    ["Errors/s", plain(now.errors)],
    ["Generated tokens/s", plain(now.generated)],
    ["Prompt tokens/s", plain(now.prompted)],
    ["Preemptions/min", plain(now.preempted == null ? null : now.preempted * 60)],
    ["Slots", plain(now.slots)],
    ["Restarts seen", plain(one.restarts)],
    ["Running since", one.started == null ? DASH : clock(one.started)],
  ].filter(([name, value]) => value !== DASH || name === "Requests/s");
  const phases = Object.entries(one.startup);
  if (phases.length) {
    const whole = phases.reduce((sum, [, took]) => sum + took, 0);
    rows.push(["Cold start", `${seconds(whole)} (${phases.map(([phase, took]) => `${PHASES[phase]} ${seconds(took)}`).join(", ")})`]);
  }
  return rows;
}

function sloTable(one) {
  const several = new Set(one.slos.map((slo) => slo.model)).size > 1;
  return h("div", { class: "card" }, table("Objectives",
    [["Objective", "wrap"], ["Promise"], ["Burn rate", "wrap"], ["Budget left"], ["Missed", "number"]],
    one.slos.map((slo) => [
      several && slo.model ? `${slo.slo}: ${slo.model}` : slo.slo,
      `${slo.promise}, ${slo.period}`,
      burns(slo),
      budget(slo),
      slo.bad == null ? DASH : `${plain(slo.bad)} of ${plain(slo.events)}`,
    ]), "stack"));
}

function burns(slo) {
  const rates = Object.entries(slo.burn);
  if (slo.status === "not_measurable") return h("span", { class: "warn" }, "can't be measured");
  if (!rates.length) return h("span", { class: "muted" }, "watching: too short yet");
  return h("span", null, rates.flatMap(([window, rate], place) => [
    place ? ", " : "", h("span", { class: rate > 1 ? "bad" : null }, `${window}: ${plain(rate)}`)]));
}

function budget(slo) {
  if (slo.budget == null) return DASH;
  const left = Math.max(0, Math.min(1, slo.budget));
  const end = slo.gone_in != null && slo.gone_in > 0 && slo.gone_in < 30 * 86400 ? `, gone in ${seconds(slo.gone_in)}` : "";
  return h("span", { class: "budget" },
    h("meter", { min: 0, max: 1, low: 0.25, high: 0.5, optimum: 1, value: left, "aria-label": "budget left" }),
    slo.budget < 0 ? ` ${plain(1 - slo.budget)}× spent` : ` ${percent(slo.budget)}`, end && h("br"), end && h("small", { class: "muted" }, end.slice(2)));
}

function scaling(one) {
  const list = (found, words, format) => Object.entries(found).filter(([what, value]) => value != null && words[what])
    .map(([what, value]) => `${words[what]} ${format(value)}`).join(", ") || DASH;
  const needed = (row) => h("strong", { class: row.demand > 1 ? "bad" : null }, plain(row.demand));
  if (one.scaling.length > 1) {
    return h("div", { class: "card" }, table("Autoscaling",
      [["Model", "wrap"], ["Replicas needed", "number"], ["Because of", "wrap"], ["Load", "number"], ["Queue to compute", "number"]],
      one.scaling.map((row) => [row.model, needed(row), because(row.reason, row.limit) || DASH, plain(row.load), plain(row.queue_to_compute)]), "stack"));
  }
  const [row] = one.scaling;
  return h("div", { class: "card" }, table("Autoscaling", [["What"], ["Now", "wrap"]], [
    ["Replicas this load needs", needed(row)],
    ["Because of", because(row.reason, row.limit) || DASH],
    ["Offered load", `${plain(row.load)} requests at once`],
    ["Capacity", list(row.capacity, LIMITS, plain)],
    ["Saturation", list(row.saturation, RESOURCES, percent)],
    ["Queue to compute", plain(row.queue_to_compute)],
  ]));
}

function scrapes(rows) {
  return table("", [["At"], ["Took", "number"], ["Result"], ["Detail", "wrap"]], rows.map(([time, took, result, detail]) =>
    [clock(time, true), seconds(took), h("span", { class: result === "ok" ? "good" : "bad" }, result.replaceAll("_", " ")), detail]), "stack");
}

function gpuTable(rows) {
  return table("GPUs",
    [["GPU"], ["Used by", "wrap"], ["State"], ["Busy", "number"], ["SMs", "number"], ["Memory"], ["Power", "number"], ["Temp.", "number"], ["Clocks held by", "wrap"]],
    rows.map((gpu) => [
      h("span", { title: gpu.uuid }, [gpu.index, gpu.name || gpu.uuid, gpu.leaf && `MIG ${gpu.leaf}`].filter(Boolean).join(" ")),
      gpu.owners.join(", ") || DASH,
      gpu.up == null ? DASH : h("span", { class: gpu.up ? "good" : "bad" }, gpu.up ? "up" : "lost"),
      percent(gpu.busy), percent(gpu.sm),
      gpu.total ? h("span", { class: "budget" },
        h("meter", { min: 0, max: gpu.total, value: gpu.used ?? 0, "aria-label": "memory used" }), ` ${bytes(gpu.used)} of ${bytes(gpu.total)}`) : DASH,
      gpu.power == null ? DASH : `${plain(Math.round(gpu.power))} W${gpu.limit ? ` of ${plain(gpu.limit)}` : ""}`,
      gpu.celsius == null ? DASH : `${gpu.celsius} °C`,
      gpu.limited.join(", ").replaceAll("_", " ") || "none",
    ]), "stack");
}

// Charts and signal tables live in elements that `fill` leaves alone. A closed target draws nothing.
function liven() {
  const present = new Set(state.targets.map((one) => one.name));
  for (const name of charts.keys()) {
    if (!present.has(name)) {
      charts.get(name).close();
      signals.get(name).stop();
      charts.delete(name);
      signals.delete(name);
    }
  }
  for (const one of state.targets) {
    const article = $(idOf(one.name));
    if (!charts.has(one.name)) {
      charts.set(one.name, new Charts(article.querySelector("[data-keep=charts]")));
      charts.get(one.name).history(past[one.name]);
      article.addEventListener("toggle", () => { if (article.open) show(); });
      signals.set(one.name, new Signals(one.name, article.querySelector("[data-keep=signals]")));
    }
    charts.get(one.name).add(one.point);
    if (article.open) charts.get(one.name).draw(one);
  }
}

function ages() {
  const since = (performance.now() - received) / 1000;
  for (const node of document.querySelectorAll("[data-age]")) {
    const age = node.getAttribute("data-age");
    text(node, age === "" ? "never" : `${seconds(Math.round(Number(age) + since))} ago`);
  }
}

// The connection: only while somebody looks.
let source = null;
function connect() {
  if (source || document.hidden) return;
  source = new EventSource("events");
  source.addEventListener("open", () => link("live", false));
  source.addEventListener("error", () => link("connection lost, trying again", true));
  source.addEventListener("history", (event) => {
    past = JSON.parse(event.data);
    for (const [name, chart] of charts) chart.history(past[name]);
  });
  source.addEventListener("state", (event) => {
    state = JSON.parse(event.data);
    received = performance.now();
    show();
  });
}

function link(words, lost) {
  text($("link"), words);
  $("link").classList.toggle("lost", lost);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden && source) {
    source.close();
    source = null;
    link("paused", true);
  } else connect();
});
addEventListener("hashchange", () => {
  const place = $(location.hash.slice(1));
  if (place && place.tagName === "DETAILS") place.open = true;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of charts.values()) chart.restyle();
  if (state) show();
});
setInterval(() => { if (!document.hidden) ages(); }, 1000);
connect();
