/** Line charts (uPlot), each with its numbers as a table for those who do not see or do not trust lines. */

import type { RefObject } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { clock } from "../format";

export interface Series {
  label: string;
  values: (number | null)[];
  /** Name of a colour in styles/base.css: "--realised". */
  colour: string;
  dashed?: boolean;
  /** Hold each value until the next one. */
  stepped?: boolean;
  /** Fill down to the axis: 0-1. */
  fill?: number;
  points?: boolean;
}

interface Props {
  /** What is shown: "Accuracy per window". */
  title: string;
  x: number[];
  /** "number": as they are; "time": UTC seconds, shown in the browser's zone. */
  xKind?: "number" | "time";
  /** Of x, as head of the table: "Window". */
  xName: string;
  series: Series[];
  /** How values are written: (v) => `${v} %`. */
  write: (value: number) => string;
  /** Fixed range of y; by default from 0 to a little above the largest. */
  range?: [number, number];
  height?: number;
  legend?: boolean;
  /** Offer the table (default). */
  table?: boolean;
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function build(host: HTMLElement, props: Props, data: uPlot.AlignedData): uPlot {
  const axis = { stroke: colour("--quiet"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  const time = props.xKind === "time";
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  return new uPlot(
    {
      width: Math.max(120, host.clientWidth),
      height: props.height ?? 180,
      padding: [8, 12, 0, 0],
      cursor: { y: false, points: { show: false } },
      legend: { show: false },
      scales: {
        x: { time, range: (_, min, max) => (min === max ? [min - 1, max + 1] : [min, max]) },
        y: { range: props.range ?? ((_, __, max) => [0, max > 0 ? 1.1 * max : 1]) },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 24,
          gap: 4,
          ...(time ? times() : wholeNumbers()),
        },
        {
          ...axis,
          grid: { stroke: colour("--line"), width: 1 },
          size: 52,
          gap: 5,
          space: 34,
          values: (_, splits) => splits.map((v) => props.write(v)),
        },
      ],
      series: [
        {},
        ...props.series.map((s) => ({
          label: s.label,
          stroke: colour(s.colour),
          width: s.dashed ? 2 : 2.5,
          ...(s.dashed ? { dash: [5, 4] } : {}),
          ...(s.stepped && stepped ? { paths: stepped } : {}),
          ...(s.fill ? { fill: withAlpha(colour(s.colour), s.fill) } : {}),
          points: { show: s.points ?? false, size: 6, fill: colour(s.colour) },
        })),
      ],
    },
    data,
    host,
  );
}

/** Times of day; with seconds where labels are less than a minute apart. */
function times(): uPlot.Axis {
  return {
    space: 70,
    values: (_, splits) => {
      const seconds = splits.length > 1 && (splits[1] ?? 0) - (splits[0] ?? 0) < 60;
      return splits.map((v) => clock(v, seconds));
    },
  };
}

function wholeNumbers(): uPlot.Axis {
  return {
    incrs: [1, 2, 5, 10, 20, 50, 100, 1000],
    values: (plot, splits) => {
      const known = plot.data[0];
      const [first, last] = [known[0] ?? 0, known.at(-1) ?? 0];
      return splits.map((v) => (Number.isInteger(v) && v >= first && v <= last ? String(v) : ""));
    },
  };
}

function withAlpha(hex: string, alpha: number): string {
  const part = Math.round(255 * alpha)
    .toString(16)
    .padStart(2, "0");
  return /^#[0-9a-f]{6}$/i.test(hex) ? hex + part : hex;
}

/** Keeps the plot drawn in the place that is returned, with the newest data; `hidden`: the table is shown instead. */
function usePlot(props: Props, hidden: boolean): RefObject<HTMLDivElement | null> {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data: uPlot.AlignedData = [props.x, ...props.series.map((s) => s.values)];
  const latest = useRef({ props, data });
  latest.current = { props, data };
  const shape = JSON.stringify([props.series.map((s) => [s.label, s.colour, s.dashed]), props.range, props.height]);

  useEffect(() => {
    const place = host.current;
    if (place === null || hidden) return undefined;
    const rebuild = (): void => {
      plot.current?.destroy();
      plot.current = build(place, latest.current.props, latest.current.data);
    };
    rebuild();
    const sized = new ResizeObserver(() => {
      plot.current?.setSize({ width: Math.max(120, place.clientWidth), height: latest.current.props.height ?? 180 });
    });
    sized.observe(place);
    addEventListener("magpie-theme", rebuild);
    return () => {
      sized.disconnect();
      removeEventListener("magpie-theme", rebuild);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [hidden, shape]);

  const shown = JSON.stringify(data);
  useEffect(() => plot.current?.setData(latest.current.data), [shown]);
  return host;
}

/** A place on x, as it is written. */
function at({ x, xKind }: Props, n: number): string {
  return xKind === "time" ? clock(x[n] ?? 0) : String(x[n] ?? 0);
}

function written({ write }: Props, value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : write(value);
}

/** The newest values, in words. */
function spoken(props: Props): string {
  const last = props.x.length - 1;
  return `${props.title}. ${props.xName} ${at(props, last)}: ` + props.series.map((s) => `${s.label} ${written(props, s.values[last])}`).join(", ");
}

export function Chart(props: Props) {
  const [asTable, setAsTable] = useState(false);
  const id = useId();
  const host = usePlot(props, asTable);
  return (
    <figure class="chart-figure">
      {(props.legend ?? true) && (
        <figcaption class="legend-row">
          {props.series.map((s) => (
            <span key={s.label}>
              <span class={s.dashed ? "key dashed" : "key"} style={{ borderColor: `var(${s.colour})` }} aria-hidden="true" />
              {s.label}
            </span>
          ))}
          {(props.table ?? true) && (
            <button type="button" class="link small" aria-pressed={asTable} aria-controls={id} onClick={() => setAsTable(!asTable)}>
              {asTable ? "Show as chart" : "Show as table"}
            </button>
          )}
        </figcaption>
      )}
      <div id={id}>{asTable ? <Numbers {...props} /> : <div class="chart" ref={host} role="img" aria-label={spoken(props)} />}</div>
    </figure>
  );
}

/** The numbers of a chart, newest first. */
function Numbers(props: Props) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${props.title}, as a table`}>
      <table class="table plain">
        <caption class="hidden">{props.title}</caption>
        <thead>
          <tr>
            <th scope="col">{props.xName}</th>
            {props.series.map((s) => (
              <th key={s.label} scope="col" class="number">
                {s.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {[...props.x.keys()].reverse().map((n) => (
            <tr key={n}>
              <th scope="row">{at(props, n)}</th>
              {props.series.map((s) => (
                <td key={s.label} class="number">
                  {written(props, s.values[n])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
