/** Applications: their stages as a graph, each with its budget, what it takes, and how much the stage before asks of it. */

import type { ApplicationAnswer, ApplicationStageAnswer, ServedModelAnswer } from "../answers";
import { percent } from "../format";
import { milliseconds, rate } from "../parts/served";
import type { Column } from "../parts/table";
import { Table } from "../parts/table";
import { href } from "../router";

/** Stages by how many stand before them on the longest way: a column each. */
function columnsOf(stages: ApplicationStageAnswer[]): ApplicationStageAnswer[][] {
  const known = new Map(stages.map((s) => [s.name, s]));
  const depth = (stage: ApplicationStageAnswer): number =>
    Math.max(-1, ...stage.after.map((name) => (known.has(name) ? depth(known.get(name)!) : -1))) + 1;
  const columns: ApplicationStageAnswer[][] = [];
  for (const stage of stages) (columns[depth(stage)] ??= []).push(stage);
  return columns;
}

const WIDTH = 216;
const HEIGHT = 68;
const GAP_X = 56;
const GAP_Y = 16;

function Graph({ application }: { application: ApplicationAnswer }) {
  const columns = columnsOf(application.stages);
  const rows = Math.max(...columns.map((c) => c.length));
  const place = new Map<string, [number, number]>();
  columns.forEach((column, x) => {
    const top = ((rows - column.length) * (HEIGHT + GAP_Y)) / 2;
    column.forEach((stage, y) => place.set(stage.name, [x * (WIDTH + GAP_X), top + y * (HEIGHT + GAP_Y)]));
  });
  const size = [columns.length * (WIDTH + GAP_X) - GAP_X, rows * (HEIGHT + GAP_Y) - GAP_Y] as const;
  const words = application.stages.map((s) => (s.after.length > 0 ? `${s.name} after ${s.after.join(" and ")}` : s.name)).join(", ");
  return (
    <div class="stage-graph" tabIndex={0} role="group" aria-label={`Graph of ${application.name}`}>
      <svg viewBox={`-1 -1 ${size[0] + 2} ${size[1] + 2}`} width={size[0]} height={size[1]} role="img" aria-label={`Stages of ${application.name}: ${words}`}>
        {application.stages.flatMap((stage) =>
          stage.after.map((before) => {
            const [from, to] = [place.get(before), place.get(stage.name)];
            if (from === undefined || to === undefined) return null;
            const [x, y] = [from[0] + WIDTH, from[1] + HEIGHT / 2];
            const end = to[1] + HEIGHT / 2;
            return <path key={`${before} ${stage.name}`} d={`M${x},${y} C${x + GAP_X / 2},${y} ${to[0] - GAP_X / 2},${end} ${to[0]},${end}`} />;
          }),
        )}
        {application.stages.map((stage) => {
          const [x, y] = place.get(stage.name) ?? [0, 0];
          return (
            <g key={stage.name} transform={`translate(${x},${y})`}>
              <rect width={WIDTH} height={HEIGHT} rx="8" />
              <text x={WIDTH / 2} y="21">
                {stage.name}
              </text>
              <text class="quiet" x={WIDTH / 2} y="39">
                {milliseconds(stage.budget_ms ?? stage.even_ms)}, {percent(stage.share)} of a device
              </text>
              <text class="quiet" x={WIDTH / 2} y="56">
                planned {milliseconds(stage.planned_ms)}, p99 {milliseconds(stage.latency_ms[1])}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

/** The models that may answer a stage, with their accuracies; nothing where there is one only. */
function Options({ stage }: { stage: ApplicationStageAnswer }) {
  const others = stage.options.filter((o) => o.model !== stage.model);
  if (others.length === 0) return null;
  return (
    <span class="quiet small">
      {" "}
      ({percent(stage.accuracy)} right; or {others.map((o) => `${o.model}, ${percent(o.accuracy)}`).join("; or ")})
    </span>
  );
}

function Late({ stage }: { stage: ApplicationStageAnswer }) {
  const part = stage.answered > 0 ? stage.over / stage.answered : 0;
  return <span class={part > 0.01 ? "lost" : ""}>{stage.answered > 0 ? percent(part, 1) : "–"}</span>;
}

const FAULTS = {
  unknown_camera: "there is no such camera",
  camera_off: "it is switched off",
  unknown_class: "it does not have all of these classes",
} as const;

/** The camera that asks the application; nothing where clients do. */
function Source({ application }: { application: ApplicationAnswer }) {
  const { camera, source } = application;
  if (camera === null || source === null) return null;
  return (
    <p>
      Camera <a href={href("camera", camera)}>{camera}</a> asks with its answers
      {source.fault === null ? `, ${rate(source.rate)} a second` : <strong class="lost">: {FAULTS[source.fault]}</strong>}
      <span class="quiet small">
        {" "}
        ({source.classes.length > 0 ? source.classes.join(", ") : "all classes"}, at least {percent(source.min_score)} sure, {source.most} of an answer at most;{" "}
        <span class={source.lost > 0 ? "lost" : ""}>{source.lost.toLocaleString()} answers lost</span>)
      </span>
    </p>
  );
}

/** The part of an application's requests that were not answered in time, of the last minute. */
function Missed({ model }: { model: ServedModelAnswer | undefined }) {
  if (model === undefined) return null;
  const part = model.violations_recent;
  return (
    <>
      ; <span class={part > 0.01 ? "lost" : ""}>{percent(part, 1)} missed lately</span>
    </>
  );
}

/** No stage has more or less of the objective than in the even split. */
function evenly(application: ApplicationAnswer): boolean {
  return application.stages.every((s) => s.budget_ms === null || Math.abs(s.budget_ms - s.even_ms) < 0.01);
}

const STAGES: Column<ApplicationStageAnswer>[] = [
  {
    key: "stage",
    title: "Stage",
    cell: (s) => (
      <span>
        {s.name} <span class="quiet small">{s.queue > 0 ? `${s.model}, queue ${s.queue}` : s.model}</span>
        <Options stage={s} />
      </span>
    ),
  },
  { key: "budget", title: "Budget", number: true, cell: (s) => milliseconds(s.budget_ms) },
  { key: "even", title: "Even split", number: true, cell: (s) => milliseconds(s.even_ms) },
  { key: "planned", title: "Planned at most", number: true, cell: (s) => milliseconds(s.planned_ms) },
  { key: "took", title: "Takes p50, p99", number: true, cell: (s) => `${milliseconds(s.latency_ms[0])}, ${milliseconds(s.latency_ms[1])}` },
  { key: "late", title: "Later than allowed", number: true, cell: (s) => <Late stage={s} /> },
  { key: "rate", title: "Rows/s, planned for", number: true, cell: (s) => `${rate(s.rate)}, ${rate(s.planned_rate)}` },
  { key: "share", title: "Share", number: true, cell: (s) => percent(s.share) },
  {
    key: "fan-out",
    title: "Rows per row, p99, expected",
    number: true,
    cell: (s) => (s.requests > 0 ? `${s.fan_out.toFixed(2)}, ${s.fan_out_p99.toFixed(1)}, ${s.expected_fan_out}` : `–, –, ${s.expected_fan_out}`),
  },
  { key: "asked", title: "Asked, answered", number: true, cell: (s) => `${s.requests.toLocaleString()}, ${s.answered.toLocaleString()}` },
];

function Application({ application: a, model }: { application: ApplicationAnswer; model: ServedModelAnswer | undefined }) {
  return (
    <article class="application" aria-label={a.name}>
      <h3>
        {a.name}{" "}
        <span class="quiet small">
          answers within {milliseconds(a.slo_ms)}; {rate(a.rate)} rows a second, planned for {rate(a.planned_rate)}
          {a.longest_ms !== null && `; budgets add up to ${milliseconds(a.longest_ms)}`}
          {a.accuracy !== null && `; ${percent(a.accuracy)} right at every stage`}
          <Missed model={model} />
        </span>
      </h3>
      <Source application={a} />
      <Graph application={a} />
      <Table caption={`Stages of ${a.name}`} rows={a.stages} rowKey={(s) => s.name} columns={STAGES} />
      <details>
        <summary>Why this split and these models</summary>
        {evenly(a) && <p class="quiet">The objective is split evenly: no other split takes a smaller share, or serves more.</p>}
        <ul class="reasons">
          {a.reasons.map((reason) => (
            <li key={reason}>{reason}.</li>
          ))}
        </ul>
      </details>
    </article>
  );
}

export function Applications({ applications, models }: { applications: ApplicationAnswer[]; models: ServedModelAnswer[] }) {
  if (applications.length === 0) return null;
  return (
    <section class="card" aria-labelledby="applications-title">
      <h2 id="applications-title">Applications</h2>
      <p class="about">
        Each request has one objective. A stage gets its budget's part of the time that is left, so time saved by one stage goes to those
        that follow.
      </p>
      {applications.map((a) => (
        <Application key={a.name} application={a} model={models.find((m) => m.kind === "application" && m.name === a.name)} />
      ))}
    </section>
  );
}
