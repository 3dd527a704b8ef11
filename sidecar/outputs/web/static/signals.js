// The table of a target's signals and where each comes from: asked for only while it is open.
import { fill, h, table } from "./dom.js";
import { DASH, inUnit, plain } from "./format.js";
import { Unfolded } from "./unfolded.js";

const HIDDEN = new Set(["target", "runtime"]);

const labels = (row) => Object.entries(row.labels || {}).filter(([name]) => !HIDDEN.has(name))
  .map(([name, value]) => `${name}=${value}`).join(", ");

function value(row) {
  if (row.type !== "histogram") return inUnit(row.value, row.unit, row.name);
  const mean = row.count > 0 && row.sum != null ? `, mean ${inUnit(row.sum / row.count, row.unit, row.name)}` : "";
  return `${plain(row.count)} observed${mean}`;
}

function origin(row) {
  if (!row.status) return DASH;
  if (row.status !== "ok") return [row.status.replaceAll("_", " "), row.note && `: ${row.note}`];
  const tip = [`${row.method} from ${row.source || "the sidecar"}`, `measured in the ${row.scope}`, row.note]
    .filter(Boolean).join("\n");
  return h("span", { class: "tip", tabindex: 0, "data-tip": tip, "aria-label": tip }, row.method);
}

export class Signals extends Unfolded {
  constructor(name, place) {
    super(place);
    this.name = name;
  }

  async read() {
    const answer = await fetch("v1/signals");
    const target = (await answer.json()).targets.find((one) => one.name === this.name);
    if (target) this.fill(target.signals);
  }

  fill(rows) {
    const present = rows.filter((row) => row.type);
    const absent = rows.filter((row) => !row.type);
    fill(this.place, [
      table(`Present: ${present.length} series`, [["Signal"], ["Labels", "wrap"], ["Value", "number"], ["From"]],
        present.map((row) => [row.name, labels(row), value(row), origin(row)]), "stack"),
      table(`Not there: ${absent.length}`, [["Signal"], ["Why", "wrap"]],
        absent.map((row) => [row.name, origin(row)]), "stack"),
    ]);
  }
}
