/** Accuracy per window: what was really answered, and what the frozen first model would have answered. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import type { WindowRecord } from "./api";
import { percent } from "./format";

const HEIGHT = 118;

function series(windows: WindowRecord[], camera: string): [number[], (number | null)[], (number | null)[]] {
  const x: number[] = [];
  const realised: (number | null)[] = [];
  const frozen: (number | null)[] = [];
  for (const window of [...windows].reverse()) {
    const row = window.cameras.find((r) => r.camera === camera);
    if (!row || (row.realised === null && row.frozen === null)) continue;
    x.push(window.id);
    realised.push(row.realised === null ? null : 100 * row.realised.value);
    frozen.push(row.frozen === null ? null : 100 * row.frozen.value);
  }
  return [x, realised, frozen];
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function build(host: HTMLElement, data: uPlot.AlignedData): uPlot {
  const axis = { stroke: colour("--quiet"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: colour("--line"), width: 1 };
  return new uPlot(
    {
      width: Math.max(120, host.clientWidth),
      height: HEIGHT,
      padding: [8, 10, 0, 0],
      cursor: { y: false, points: { show: false } },
      legend: { show: false },
      scales: {
        x: { time: false, range: (_, min, max) => (min === max ? [min - 1, max + 1] : [min, max]) },
        y: { range: [0, 100] },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 22,
          gap: 3,
          incrs: [1, 2, 5, 10, 20, 50, 100, 1000],
          values: (plot, splits) => {
            const known = plot.data[0];
            const [first, last] = [known[0] ?? 0, known.at(-1) ?? 0];
            return splits.map((v) => (Number.isInteger(v) && v >= first && v <= last ? String(v) : ""));
          },
        },
        { ...axis, grid, size: 44, gap: 4, splits: () => [0, 50, 100], values: (_, v) => v.map((n) => `${n} %`) },
      ],
      series: [
        {},
        { stroke: colour("--realised"), width: 2.5, points: { show: true, size: 6, fill: colour("--realised") } },
        { stroke: colour("--frozen"), width: 2, dash: [5, 4], points: { show: false } },
      ],
    },
    data,
    host,
  );
}

export function AccuracyChart({ windows, camera }: { windows: WindowRecord[]; camera: string }) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = series(windows, camera);
  const latest = useRef<uPlot.AlignedData>(data);
  latest.current = data;
  const filled = data[0].length > 0;

  useEffect(() => {
    const place = host.current;
    if (place === null || !filled) return undefined;
    const rebuild = (): void => {
      plot.current?.destroy();
      plot.current = build(place, latest.current);
    };
    rebuild();
    const sized = new ResizeObserver(() => {
      plot.current?.setSize({ width: Math.max(120, place.clientWidth), height: HEIGHT });
    });
    sized.observe(place);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", rebuild);
    addEventListener("magpie-theme", rebuild);
    return () => {
      sized.disconnect();
      dark.removeEventListener("change", rebuild);
      removeEventListener("magpie-theme", rebuild);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [filled]);

  const shown = JSON.stringify(data);
  useEffect(() => plot.current?.setData(latest.current), [shown]);

  if (!filled) return <p class="chart-empty">The first accuracy comes when a window is over and its sample is labelled.</p>;
  const last = data[1].at(-1);
  const frozen = data[2].at(-1);
  const spoken =
    `Accuracy by window. Window ${data[0].at(-1)}: ${percent((last ?? 0) / 100)}, ` +
    `frozen model ${percent((frozen ?? 0) / 100)}.`;
  return <div class="chart" ref={host} role="img" aria-label={spoken} />;
}
