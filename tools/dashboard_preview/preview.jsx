// Draws one dashboard's JSON with @grafana/ui against a Prometheus behind /api. Heatmaps and state timelines are
// drawn plainly: Grafana keeps those two outside its published packages.
import React, { useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { firstValueFrom } from "rxjs";
import { BarGauge, BigValue, GlobalStyles, PanelChrome, Table, ThemeContext, TimeSeries } from "@grafana/ui";
import {
  FieldType, createTheme, dateTime, getDisplayProcessor, getFieldDisplayName, reduceField, standardTransformers,
  standardTransformersRegistry, toDataFrame, transformDataFrame, VizOrientation,
} from "@grafana/data";

const parameters = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: parameters.get("mode") || "dark" } });
const [begin, end] = ["begin", "end"].map((name) => Number(parameters.get(name)));
const step = Math.max(1, Math.round((end - begin) / 240));
const CELL = 38; // a grid row of Grafana: 30 pixels and a gap of 8

standardTransformersRegistry.setInit(() => ["mergeTransformer", "organizeFieldsTransformer"].map((name) => {
  const one = standardTransformers[name];
  return { id: one.id, name: one.name, transformation: one };
}));

function filled(text) {
  return text
    .replaceAll("$__rate_interval", `${Math.max(4 * Number(parameters.get("scrape") || 1), step)}s`)
    .replaceAll("$__range", `${Math.round(end - begin)}s`)
    .replace(/"\$(namespace|fleet|runtime|model|target|slo|gpu)"/g, (_, name) => `"${parameters.get(name) || ".*"}"`);
}

async function ask(target) {
  const query = encodeURIComponent(filled(target.expr));
  const path = target.instant ? `query?query=${query}&time=${end}`
    : `query_range?query=${query}&start=${begin}&end=${end}&step=${step}`;
  const body = await (await fetch(`api/v1/${path}`)).json();
  if (body.status !== "success") throw new Error(`${target.expr}: ${body.error}`);
  return body.data.result;
}

const legend = (target, metric) => target.legendFormat === "__auto" ? target.expr.slice(0, 30)
  : target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => metric[name] || "").replace(/\s+/g, " ").trim();

// Frames as Grafana's Prometheus data source makes them.
function frames(target, result, many) {
  if (target.format === "table") {
    const labels = [...new Set(result.flatMap((one) => Object.keys(one.metric)))].sort();
    return [toDataFrame({ refId: target.refId, fields: [
      { name: "Time", type: FieldType.time, values: result.map((one) => one.value[0] * 1000) },
      ...labels.map((name) => ({ name, type: FieldType.string, values: result.map((one) => one.metric[name]) })),
      { name: many ? `Value #${target.refId}` : "Value", type: FieldType.number, values: result.map((one) => Number(one.value[1])) },
    ] })];
  }
  return result.map((one) => {
    const samples = one.values || [one.value];
    return toDataFrame({ refId: target.refId, fields: [
      { name: "Time", type: FieldType.time, values: samples.map(([time]) => time * 1000) },
      { name: "Value", type: FieldType.number, labels: one.metric, config: { displayNameFromDS: legend(target, one.metric) },
        values: samples.map(([, value]) => (value === "NaN" ? null : Number(value))) },
    ] });
  });
}

// Defaults, then the overrides that name the field; the way from the JSON's flat names to Grafana's nested ones.
function configured(data, panel) {
  let index = 0;
  for (const frame of data) for (const field of frame.fields) {
    if (field.type === FieldType.time) { field.display = getDisplayProcessor({ field, theme }); continue; }
    const config = structuredClone({ ...panel.fieldConfig.defaults, ...field.config });
    const name = getFieldDisplayName(field, frame, data);
    for (const one of panel.fieldConfig.overrides) {
      if (one.matcher.options !== name) continue;
      for (const { id, value } of one.properties) {
        if (id.startsWith("custom.")) config.custom = { ...config.custom, [id.slice(7)]: value };
        else config[id] = value;
      }
    }
    const steps = config.thresholds?.steps;
    if (steps) steps[0].value = -Infinity;
    config.color ??= { mode: panel.type === "timeseries" ? "palette-classic" : "thresholds" };
    field.config = config;
    const known = field.type === FieldType.number ? field.values.filter((value) => value != null) : [0];
    const range = { min: Math.min(...known), max: Math.max(...known), delta: 0 };
    field.state = { ...field.state, seriesIndex: index++, range };
    field.display = getDisplayProcessor({ field, theme });
  }
  return data;
}

function Panel({ panel }) {
  const place = panel.gridPos;
  const box = useRef(null);
  const [data, setData] = useState(null);
  const [width, setWidth] = useState(0);
  const [fault, setFault] = useState("");
  useEffect(() => {
    setWidth(box.current.clientWidth);
    (async () => {
      try {
        const results = await Promise.all(panel.targets.map(ask));
        const many = panel.targets.length > 1;
        const raw = panel.targets.flatMap((target, place) => frames(target, results[place], many));
        const changed = panel.transformations.length ? await firstValueFrom(transformDataFrame(panel.transformations, raw)) : raw;
        setData(configured(changed, panel));
        if (!raw.some((frame) => frame.length)) window.empty.push(panel.title);
      } catch (error) {
        setFault(String(error));
        window.faults.push(`${panel.title}: ${error}`);
      } finally {
        window.pending -= 1;
      }
    })();
  }, []);
  const height = place.h * CELL - 8;
  return (
    <div ref={box} style={{ gridColumn: `${place.x + 1} / span ${place.w}`, height }}>
      {width > 0 && (
        <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
          {(inner, tall) => fault ? <p>{fault}</p> : data && <Drawing panel={panel} data={data} width={inner} height={tall} />}
        </PanelChrome>
      )}
    </div>
  );
}

function Drawing({ panel, data, width, height }) {
  const values = data.flatMap((frame) => frame.fields.filter((field) => field.type === FieldType.number).map((field) => [frame, field]));
  if (!data.some((frame) => frame.length) || (!values.length && panel.type !== "table")) {
    return <p style={{ textAlign: "center", color: theme.colors.text.secondary }}>{panel.fieldConfig.defaults.noValue || "No data"}</p>;
  }
  const last = (field) => reduceField({ field, reducers: ["lastNotNull"] }).lastNotNull;
  switch (panel.type) {
    case "timeseries":
      return <TimeSeries frames={data} structureRev={1} width={width} height={height} timeZone="utc" legend={panel.options.legend} options={{}}
        timeRange={{ from: dateTime(begin * 1000), to: dateTime(end * 1000), raw: { from: "now-1h", to: "now" } }} />;
    case "stat": {
      const [frame, field] = values[0];
      const spark = panel.options.graphMode === "area" && frame.length > 2
        ? { y: field, x: frame.fields[0], timeline: true } : undefined;
      return <BigValue theme={theme} width={width} height={height} value={field.display(last(field))} colorMode={panel.options.colorMode}
        graphMode={spark ? "area" : "none"} sparkline={spark} justifyMode="auto" textMode="value" />;
    }
    case "bargauge": {
      const tall = Math.min(60, height / values.length);
      return values.map(([frame, field], place) => (
        <BarGauge key={place} theme={theme} width={width} height={tall} orientation={VizOrientation.Horizontal} displayMode="gradient"
          field={{ ...field.config, max: field.config.max ?? Math.max(...values.map(([, one]) => last(one))) }} display={field.display}
          value={{ ...field.display(last(field)), title: getFieldDisplayName(field, frame, data) }} showUnfilled />
      ));
    }
    case "table":
      return <Table data={data[0]} columnMinWidth={panel.fieldConfig.defaults.custom.minWidth} width={width} height={height} initialSortBy={panel.options.sortBy} />;
    case "heatmap":
      return <Heatmap data={data} unit={panel.unit} width={width} height={height} />;
    case "state-timeline":
      return <Timeline values={values} data={data} width={width} height={height} />;
    default:
      return <p>{panel.type} can't be drawn here</p>;
  }
}

function Heatmap({ data, width, height }) {
  const bound = (frame) => Number(frame.fields[1].labels.le.replace("+Inf", "Infinity"));
  const rows = [...data].sort((a, b) => bound(a) - bound(b));
  const times = [...new Set(rows.flatMap((frame) => frame.fields[0].values))].sort((a, b) => a - b);
  const at = rows.map((frame) => new Map(frame.fields[0].values.map((time, place) => [time, frame.fields[1].values[place]])));
  const cells = rows.map((_, row) => times.map((time) => Math.max(0, (at[row].get(time) || 0) - (row ? at[row - 1].get(time) || 0 : 0))));
  const used = cells.map((row) => row.some((value) => value > 0));
  const [low, high] = [used.indexOf(true), used.lastIndexOf(true)];
  const most = Math.max(...cells.flat(), 1e-9);
  const canvas = useRef(null);
  useEffect(() => {
    const pen = canvas.current.getContext("2d");
    const [wide, tall] = [(width - 60) / times.length, (height - 8) / (high - low + 1)];
    pen.font = "11px sans-serif";
    for (let row = low; row <= high; row++) {
      const y = (high - row) * tall;
      pen.fillStyle = theme.colors.text.secondary;
      if ((row - low) % Math.ceil(14 / tall) === 0) pen.fillText(`${rows[row].fields[1].labels.le} s`, 0, y + tall / 2 + 4);
      cells[row].forEach((value, place) => {
        if (!value) return;
        pen.fillStyle = `rgba(255, 140, 40, ${0.12 + 0.88 * Math.sqrt(value / most)})`;
        pen.fillRect(60 + place * wide, y, Math.max(wide - 0.5, 1), tall - 1);
      });
    }
  }, []);
  return <canvas ref={canvas} width={width} height={height} />;
}

function Timeline({ values, data, width, height }) {
  const tall = Math.min(34, height / values.length);
  return values.map(([frame, field], row) => (
    <div key={row} style={{ display: "flex", height: tall, alignItems: "center", fontSize: 12 }}>
      <span style={{ width: 110, overflow: "hidden" }}>{getFieldDisplayName(field, frame, data)}</span>
      <svg width={width - 110} height={tall * 0.8}>
        {field.values.map((value, place) => {
          const x = ((frame.fields[0].values[place] / 1000 - begin) / (end - begin)) * (width - 110);
          return <rect key={place} x={x} width={(step / (end - begin)) * (width - 110) + 1} height={tall * 0.8} fill={field.display(value).color} />;
        })}
      </svg>
    </div>
  ));
}

function Board({ board }) {
  const sections = [];
  for (const panel of board.panels) {
    if (panel.type === "row") sections.push({ title: panel.title, panels: panel.panels });
    else sections[sections.length - 1].panels.push(panel);
  }
  return (
    <div style={{ padding: 12 }}>
      <h2>{board.title}</h2>
      {sections.map((section) => (
        <section key={section.title}>
          <h4 style={{ margin: "10px 0 6px" }}>{section.title}</h4>
          <div style={{ display: "grid", gridTemplateColumns: "repeat(24, 1fr)", gap: 8 }}>
            {section.panels.map((panel) => <Panel key={panel.id} panel={panel} />)}
          </div>
        </section>
      ))}
    </div>
  );
}

(async () => {
  const board = await (await fetch(`boards/${parameters.get("board")}.json`)).json();
  window.faults = [];
  window.empty = [];
  window.pending = board.panels.flatMap((panel) => (panel.type === "row" ? panel.panels : [panel])).length;
  document.body.style.cssText = `margin: 0; background: ${theme.colors.background.canvas}; color: ${theme.colors.text.primary}; font: 14px Inter, system-ui, sans-serif`;
  createRoot(document.getElementById("root")).render(
    <ThemeContext.Provider value={theme}><GlobalStyles /><Board board={board} /></ThemeContext.Provider>);
})();
