// Numbers for people. An absent one is a dash, never a zero.

export const DASH = "–";

export function plain(value) {
  if (value == null) return DASH;
  const size = Math.abs(value);
  for (const [unit, least] of [["G", 1e9], ["M", 1e6], ["k", 1e4]]) {
    if (size >= least) return digits(value / (unit === "k" ? 1e3 : least)) + unit;
  }
  return digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value)) return String(value);
  if (size >= 100) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function percent(ratio) {
  if (ratio != null && Math.abs(ratio) >= 10) return `${plain(ratio)}×`;
  return ratio == null ? DASH : `${(ratio * 100).toFixed(Math.abs(ratio) < 0.1 && ratio !== 0 ? 1 : 0)} %`;
}

export function seconds(value) {
  if (value == null) return DASH;
  if (value === 0) return "0 s";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 7200) return `${(value / 60).toFixed(0)} min`;
  return value < 172800 ? `${(value / 3600).toFixed(0)} h` : `${(value / 86400).toFixed(0)} d`;
}

export function bytes(value) {
  if (value == null) return DASH;
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (value >= size) return `${(value / size).toFixed(value / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${value} B`;
}

export function clock(time, withSeconds = false) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (withSeconds) options.second = "2-digit";
  return new Date(time * 1000).toLocaleTimeString([], options);
}

// A value in the unit that the schema gives it.
export function inUnit(value, unit, name) {
  if (typeof value === "string") return value;
  if (name.endsWith("_timestamp_seconds")) return new Date(value * 1000).toLocaleString([], { hourCycle: "h23" });
  if (unit === "seconds") return seconds(value);
  if (unit === "ratio") return percent(value);
  if (unit === "bytes") return bytes(value);
  return plain(value);
}
