// The fleet role's page: replicas needed and there, why, and each sidecar, which is asked for only while its table is open.
import { fill, h, table } from "./dom.js";
import { DASH, percent, plain, seconds } from "./format.js";
import { Unfolded } from "./unfolded.js";
import { STATES, because } from "./words.js";

const MOST = 200; // rows; those that fail come first

export function overview(fleet) {
  const needed = fleet.models.some((row) => row.demand != null)
    ? fleet.models.reduce((sum, row) => sum + (row.demand ?? 0), 0) : null;
  const short = needed != null && needed > fleet.ready;
  const rows = [
    ["Replicas needed", h("strong", { class: short ? "bad" : null }, needed == null ? "unknown: nobody answers" : plain(needed))],
    ["Replicas ready", plain(fleet.ready)],
    ["Replicas answering", `${plain(fleet.answering)} of ${plain(fleet.listed)} listed`],
  ];
  if (fleet.at_router != null) rows.push(["Requests at the router", plain(fleet.at_router)]);
  return h("div", { class: "card" }, table("Fleet", [["What"], ["Now", "wrap"]], rows));
}

export function models(fleet) {
  return h("div", { class: "card" }, table("What the load needs",
    [["Model", "wrap"], ["Replicas", "number"], ["Because of", "wrap"], ["Load", "number"], ["Running", "number"], ["Waiting", "number"],
      ["A replica runs", "number"], ["Service time", "number"], ["Queue to compute", "number"], ["KV cache", "number"]],
    fleet.models.map((row) => [row.model || DASH, plain(row.demand), decided(row), plain(row.load), plain(row.running), plain(row.waiting),
      plain(row.capacity), seconds(row.service_time), plain(row.queue_to_compute), percent(row.kv)]), "stack"));
}

function decided(row) {
  const parts = row.decided.filter(([, , count]) => count);
  return parts.map(([reason, limit, count]) => parts.length > 1 ? `${count}: ${because(reason, limit)}` : because(reason, limit))
    .join("; ") || DASH;
}

// What a sidecar is taken for, and how many of its targets are heard where not all are.
function state(one) {
  const targets = Object.values(one.targets).filter((target) => target.state !== "starting");
  const heard = targets.filter((target) => target.state === "serving").length;
  const part = heard > 0 && heard < targets.length;
  const color = one.state === "blind" ? "bad" : part ? "warn" : one.state === "serving" ? "good" : "muted";
  return h("span", { class: color }, part ? `${STATES[one.state]}, ${heard} of ${targets.length} targets` : STATES[one.state]);
}

// Of its targets those that say nothing while it can be read, each with the cause.
function silent(one) {
  return Object.entries(one.targets).filter(([, target]) => target.detail).map(([name, target]) => `${name}: ${target.detail}`);
}

// The table of sidecars, with what is wrong with each.
export class Members extends Unfolded {
  async read() {
    this.fill((await (await fetch("v1/fleet")).json()).members);
  }

  fill(rows) {
    const well = (one) => !one.error && !silent(one).length;
    const sorted = [...rows].sort((one, other) => well(one) - well(other));
    fill(this.place, [
      table("", [["Sidecar", "wrap"], ["Taken as"], ["Read"], ["Last failure, and targets not heard", "wrap"]], sorted.slice(0, MOST).map((one) => [
        one.address,
        state(one),
        one.age_seconds == null ? "never" : `${seconds(one.age_seconds)} ago`,
        [one.detail || one.error.replaceAll("_", " "), ...silent(one)].filter(Boolean).join("; ") || DASH,
      ]), "stack"),
      ...(sorted.length > MOST ? [h("p", { class: "muted" }, `and ${sorted.length - MOST} more`)] : []),
    ]);
  }
}
