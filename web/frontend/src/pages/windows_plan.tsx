/** The shares of a window over time, one above the other: who had how much of the device when. */

import { useId, useState } from "preact/hooks";

import type { Camera } from "../api";
import { clock, duration, percent } from "../format";
import { cameraColour } from "../parts/colours";
import type { Kind, Share, Stretch } from "../parts/explained";
import { KINDS } from "../parts/explained";

/** From the bottom up. */
const ORDER: Kind[] = ["control", "front", "serving", "golden", "profiling", "others", "inference", "retraining"];

const COLOURS: Partial<Record<Kind, string>> = {
  control: "var(--control)",
  front: "var(--part-front)",
  serving: "var(--part-serving)",
  golden: "var(--golden)",
  profiling: "var(--profiling)",
  others: "var(--part-others)",
};

export function cameraName(cameras: Camera[], id: string): string {
  return cameras.find((c) => c.id === id)?.name ?? id;
}

export function colourOf(cameras: Camera[], kind: Kind, camera: string | null): string {
  const index = cameras.findIndex((c) => c.id === camera);
  return COLOURS[kind] ?? (index < 0 ? "var(--frozen)" : cameraColour(index));
}

export function partName(cameras: Camera[], kind: Kind, camera: string | null): string {
  return camera === null ? KINDS[kind] : `${cameraName(cameras, camera)}: ${KINDS[kind]}`;
}

function ordered(stretch: Stretch, cameras: Camera[]): Share[] {
  const place = (s: Share): number => cameras.findIndex((c) => c.id === s.camera);
  return [...stretch.shares].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || place(a) - place(b));
}

function free(stretch: Stretch): number {
  return Math.max(0, 1 - stretch.shares.reduce((sum, s) => sum + s.share, 0));
}

function seconds(value: number): string {
  if (value >= 600) return duration(value);
  return `${value < 100 ? value.toFixed(1) : Math.round(value)}\u00a0s`;
}

interface PlanProps {
  label: string;
  timeline: Stretch[];
  length_s: number;
  /** UTC seconds at which the window began. */
  start_utc_s: number;
  /** Seconds after the start; null when the window is over. */
  now_s: number | null;
  cameras: Camera[];
  /** Configurations in words, by id. */
  configs: Record<string, string>;
  /** Numbers of the plans as the page counts them, by record. */
  planNumbers?: Map<number, number>;
}

/** The place in the timeline of the stretch that holds so many seconds after the start. */
function stretchAt(timeline: Stretch[], s: number): number {
  return Math.max(0, timeline.findIndex((t) => s < t.end_s));
}

function planWords(stretch: Stretch, { planNumbers }: PlanProps): string {
  if (stretch.plan === null) return "while labels were awaited";
  return planNumbers === undefined ? "" : `plan ${planNumbers.get(stretch.plan) ?? stretch.plan}`;
}

/** From the top down. */
function sharesWords(stretch: Stretch, { cameras }: PlanProps): string {
  return [...ordered(stretch, cameras)]
    .reverse()
    .map((s) => `${partName(cameras, s.kind, s.camera)} ${percent(s.share)}`)
    .concat(free(stretch) > 0.005 ? [`free ${percent(free(stretch))}`] : [])
    .join(", ");
}

export function PlanChart(props: PlanProps) {
  const { timeline, length_s, now_s } = props;
  const [chosen, setChosen] = useState<number | null>(null);
  const [asTable, setAsTable] = useState(false);
  const id = useId();
  if (timeline.length === 0) return <p class="quiet">No plan is recorded for this window.</p>;

  const initial = now_s === null ? timeline.findIndex((t) => t.phase === "running") : stretchAt(timeline, Math.min(now_s, length_s - 0.001));
  const index = Math.min(timeline.length - 1, chosen ?? Math.max(0, initial));
  const stretch = timeline[index];
  if (stretch === undefined) return null;
  return (
    <div class="plan">
      <div class="plan-main">
        {asTable ? <PlanTable {...props} id={id} /> : <PlanFrame {...props} id={id} index={index} stretch={stretch} onChoose={setChosen} />}
        <p class="plan-legend quiet">
          <span class="swatch" aria-hidden="true" /> inference <span class="swatch training" aria-hidden="true" /> retraining, in the colour of
          the camera
          <button type="button" class="link small" aria-pressed={asTable} aria-controls={id} onClick={() => setAsTable(!asTable)}>
            {asTable ? "Show as chart" : "Show as table"}
          </button>
        </p>
      </div>
      {!asTable && <PlanReadout {...props} stretch={stretch} />}
    </div>
  );
}

function PlanTable({ id, ...plan }: PlanProps & { id: string }) {
  return (
    <div class="scroll" id={id} tabIndex={0} role="region" aria-label={`${plan.label}, as a table`}>
      <table class="table plain">
        <caption class="hidden">{plan.label}</caption>
        <thead>
          <tr>
            <th scope="col">From – to</th>
            <th scope="col">Plan</th>
            <th scope="col">Shares</th>
          </tr>
        </thead>
        <tbody>
          {plan.timeline.map((t) => (
            <tr key={t.start_s}>
              <th scope="row">
                {seconds(t.start_s)} – {seconds(t.end_s)}
              </th>
              <td>{planWords(t, plan)}</td>
              <td>{sharesWords(t, plan)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface PlotProps extends PlanProps {
  /** The stretch that is chosen, and its place in the timeline. */
  stretch: Stretch;
  index: number;
  onChoose: (index: number) => void;
}

function PlanFrame({ id, ...plot }: PlotProps & { id: string }) {
  return (
    <div class="plan-frame" id={id}>
      <div class="plan-y" aria-hidden="true">
        <span>100 %</span>
        <span>50 %</span>
        <span>0 %</span>
      </div>
      <PlanPlot {...plot} />
      <div class="plan-x" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75, 1].map((part) => (
          <span key={part} style={{ left: `${100 * part}%` }}>
            {seconds(part * plot.length_s).replace(".0", "")}
          </span>
        ))}
      </div>
    </div>
  );
}

function PlanPlot({ stretch, index, onChoose, ...plan }: PlotProps) {
  const { label, timeline, length_s, now_s, cameras, planNumbers } = plan;
  const walk = (event: KeyboardEvent): void => {
    const to = { ArrowRight: index + 1, ArrowUp: index + 1, ArrowLeft: index - 1, ArrowDown: index - 1, Home: 0, End: timeline.length - 1 }[
      event.key
    ];
    if (to === undefined) return;
    event.preventDefault();
    onChoose(Math.min(timeline.length - 1, Math.max(0, to)));
  };
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    onChoose(stretchAt(timeline, ((event.clientX - box.left) / box.width) * length_s));
  };
  return (
    <div
      class="plan-plot"
      role="slider"
      tabIndex={0}
      aria-label={`${label}: time`}
      aria-valuemin={0}
      aria-valuemax={Math.round(length_s)}
      aria-valuenow={Math.round(stretch.start_s)}
      aria-valuetext={`${seconds(stretch.start_s)} to ${seconds(stretch.end_s)}, ${planWords(stretch, plan)}: ${sharesWords(stretch, plan)}`}
      onKeyDown={walk}
      onPointerMove={point}
      onPointerDown={point}
    >
      {timeline.map((t, n) => (
        <StretchColumn key={`${t.plan}-${t.start_s}`} stretch={t} chosen={n === index} length_s={length_s} cameras={cameras} />
      ))}
      {planNumbers !== undefined && <PlanMarks timeline={timeline} length_s={length_s} planNumbers={planNumbers} />}
      {now_s !== null && now_s < length_s && (
        <span class="plan-now" style={{ left: partOf(Math.max(0, now_s), length_s) }}>
          <b>now</b>
        </span>
      )}
    </div>
  );
}

function partOf(s: number, length_s: number): string {
  return `${(100 * s) / length_s}%`;
}

interface ColumnProps {
  stretch: Stretch;
  chosen: boolean;
  length_s: number;
  cameras: Camera[];
}

function StretchColumn({ stretch, chosen, length_s, cameras }: ColumnProps) {
  return (
    <div
      class={chosen ? "plan-stretch chosen" : "plan-stretch"}
      style={{ left: partOf(stretch.start_s, length_s), width: partOf(stretch.end_s - stretch.start_s, length_s) }}
    >
      {ordered(stretch, cameras).map((s) => (
        <span
          key={`${s.kind}-${s.camera}`}
          class={s.kind === "retraining" ? "training" : ""}
          style={{ height: `${100 * s.share}%`, backgroundColor: colourOf(cameras, s.kind, s.camera) }}
        />
      ))}
    </div>
  );
}

/** Where a plan takes over from the one before; its number stands there where there is room for it. */
function PlanMarks({ timeline, length_s, planNumbers }: Required<Pick<PlanProps, "timeline" | "length_s" | "planNumbers">>) {
  const takeOvers = timeline.filter((t, n) => t.plan !== null && t.plan !== timeline[n - 1]?.plan);
  return (
    <>
      {takeOvers.map((t, n) => (
        <span key={t.plan} class="plan-mark" style={{ left: partOf(t.start_s, length_s) }}>
          {(takeOvers[n + 1]?.start_s ?? Infinity) - t.start_s > 0.02 * length_s && <b>{planNumbers.get(t.plan ?? -1)}</b>}
        </span>
      ))}
    </>
  );
}

/** The shares of one stretch in words. */
function PlanReadout({ stretch, ...plan }: PlanProps & { stretch: Stretch }) {
  const { start_utc_s, cameras, configs } = plan;
  const words = planWords(stretch, plan);
  return (
    <div class="plan-readout">
      <p>
        <strong>
          {seconds(stretch.start_s)} – {seconds(stretch.end_s)}
        </strong>{" "}
        <span class="quiet">
          {clock(start_utc_s + stretch.start_s)} – {clock(start_utc_s + stretch.end_s)}
          {words && `, ${words}`}
        </span>
      </p>
      <ul>
        {[...ordered(stretch, cameras)].reverse().map((s) => (
          <li key={`${s.kind}-${s.camera}`}>
            <span
              class={s.kind === "retraining" ? "swatch training" : "swatch"}
              style={{ backgroundColor: colourOf(cameras, s.kind, s.camera) }}
              aria-hidden="true"
            />
            <span>
              {partName(cameras, s.kind, s.camera)}
              {s.config !== null && <span class="quiet"> {configs[s.config] ?? s.config}</span>}
            </span>
            <span class="number">{percent(s.share, 1)}</span>
          </li>
        ))}
        {free(stretch) > 0.005 && (
          <li>
            <span class="swatch free" aria-hidden="true" />
            <span>Free</span>
            <span class="number">{percent(free(stretch), 1)}</span>
          </li>
        )}
      </ul>
    </div>
  );
}
