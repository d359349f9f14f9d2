/** One retraining window: what was planned and why, what was considered, what was expected, and what came of it. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { Camera } from "../api";
import { ApiError } from "../api";
import { clock, duration, moment, percent } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import type { Tone } from "../parts/badge";
import { Chart } from "../parts/chart";
import type { Decision, Estimate, Explained, Option, UsedShare, WindowCamera, WindowJob } from "../parts/explained";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { Gain, outcomeBadge } from "../parts/window_outcome";
import { href } from "../router";
import type { PageProps } from "./page";
import { PlanChart, cameraName, colourOf, partName } from "./windows_plan";
import { WhatIfCard } from "./windows_what_if";

/** While a window is open shares and retrainings go on between the events. */
const OPEN_EVERY_S = 10;

/** So many ways to retrain are shown before one asks for all. */
const FEW = 5;

const OUTCOMES: Record<WindowJob["outcome"], [string, Tone]> = {
  running: ["Running", "info"],
  promoted: ["In force", "good"],
  refused: ["Not better, not used", "off"],
  stopped: ["Stopped early", "wait"],
  failed: ["Failed", "bad"],
  interrupted: ["Interrupted", "wait"],
};

interface Props extends PageProps {
  number: number;
  changed: unknown;
}

export function WindowDetail({ known, me, now_s, number, changed }: Props) {
  const isOpen = known.overview?.window.number === number;
  const asked = useAsked<Explained>(`/windows/${number}/explained`, changed, isOpen ? OPEN_EVERY_S : null);
  const { value: explained, error } = asked;
  const cameras = known.overview?.cameras ?? [];
  if (explained === null) {
    if (error === null) return <Loading what={`Loading window ${number}`} />;
    if (error instanceof ApiError && error.status === 404) {
      return (
        <Empty title={`There is no window ${number}`} action={<a href={href("windows")}>All windows</a>} level={2}>
          It may have been deleted by retention.
        </Empty>
      );
    }
    return <ErrorBox what={`Window ${number} could not be loaded`} error={error} onRetry={asked.again} />;
  }
  return (
    <>
      <WindowHead window={explained.window} newest={known.overview?.window.number ?? number} />
      {error !== null && <ErrorBox what="The newest state of this window could not be loaded" error={error} onRetry={asked.again} />}
      <WindowCards explained={explained} cameras={cameras} now_s={now_s} />
      {explained.decisions.length > 0 && <WhatIfCard explained={explained} me={me} cameras={cameras} />}
    </>
  );
}

function WindowHead({ window, newest }: { window: Explained["window"]; newest: number }) {
  const number = window.id;
  return (
    <>
      <nav class="steps" aria-label="Windows">
        <a href={href("windows")}>All windows</a>
        {number > 1 && <a href={href("windows", number - 1)}>Window {number - 1}</a>}
        {number < newest && <a href={href("windows", number + 1)}>Window {number + 1}</a>}
      </nav>
      <div class="section-head">
        <h2 id="window-title">
          Window {number} {outcomeBadge(window.outcome)}
        </h2>
        <p class="quiet">
          {moment(window.start_utc_s)} – {clock(window.start_utc_s + window.length_s)}, {duration(window.length_s)}, policy {window.policy}
        </p>
      </div>
    </>
  );
}

function WindowCards({ explained, cameras, now_s }: { explained: Explained; cameras: Camera[]; now_s: number }) {
  const { window } = explained;
  const since = now_s - window.start_utc_s;
  const now = window.open && since < window.length_s ? since : null;
  const numbers = new Map(explained.decisions.map((d, n) => [d.plan, n + 1]));
  return (
    <>
      <Section id="came" title="What came of it" about={now === null ? RESULT_ABOUT : RESULT_OPEN}>
        <Results explained={explained} cameras={cameras} />
      </Section>

      <Section id="plan" title="Shares over time" about="The part of the device that each worker had over time. Numbers mark where a new plan took over.">
        <PlanChart
          label={`Shares in window ${window.id}`}
          timeline={explained.timeline}
          length_s={window.length_s}
          start_utc_s={window.start_utc_s}
          now_s={now}
          cameras={cameras}
          configs={explained.configs}
          planNumbers={numbers}
        />
      </Section>

      <Section id="expected" title="Expected over time" about="The accuracy that the plans expected at each moment, as they took over; beside it the accuracy measured over the whole window.">
        <Expected explained={explained} cameras={cameras} />
      </Section>

      <Section id="why" title="Why it was planned so" about="Each plan in turn: what made a new plan necessary, and the reasons.">
        <Decisions decisions={explained.decisions} cameras={cameras} start_utc_s={window.start_utc_s} />
      </Section>

      <Section
        id="considered"
        title="Ways to retrain that were considered"
        about="Short trials estimate what each would bring and cost. One device second is all of the device for one second."
      >
        <Considered explained={explained} cameras={cameras} />
      </Section>

      <Section id="use" title="Shares asked for, given and used" about={now === null ? "Means over the window." : "Means since the window began."}>
        <Usage usage={explained.usage} cameras={cameras} />
      </Section>

      <Section id="costs" title="Costs and losses">
        <CostsAndLosses explained={explained} cameras={cameras} />
      </Section>
    </>
  );
}

const RESULT_ABOUT = "Accuracy is measured with labels of the golden model after the window has ended.";
const RESULT_OPEN = `${RESULT_ABOUT} This one is still running.`;

function Section({ id, title, about, children }: { id: string; title: string; about?: string; children: ComponentChildren }) {
  return (
    <section class="card" aria-labelledby={`${id}-title`}>
      <h3 id={`${id}-title`}>{title}</h3>
      {about && <p class="quiet about">{about}</p>}
      {children}
    </section>
  );
}

function CameraCell({ id, cameras }: { id: string; cameras: Camera[] }) {
  return (
    <span class="camera-cell">
      <span class="dot" style={{ background: colourOf(cameras, "inference", id) }} aria-hidden="true" />
      <a href={href("camera", id)}>{cameraName(cameras, id)}</a>
    </span>
  );
}

function jobWords({ job, words, expected }: WindowJob): string {
  const parts = [`${sentence(words)}.`];
  if (job.accuracy_after !== null && job.accuracy_before !== null) {
    parts.push(`${percent(job.accuracy_before)} before, ${percent(job.accuracy_after)} after on held-out frames`);
    if (expected !== null) parts.push(`(expected ${percent(expected.accuracy.value)}).`);
  } else if (expected !== null) {
    parts.push(`Expected: ${percent(expected.accuracy.value)} after it.`);
  }
  return parts.join(" ");
}

function Results({ explained, cameras }: { explained: Explained; cameras: Camera[] }) {
  return (
    <Table
      caption="Expected and realised accuracy of each camera"
      rows={explained.cameras}
      rowKey={(c) => c.camera}
      empty="Nothing of your cameras in this window."
      columns={[
        { key: "camera", title: "Camera", cell: (c) => <CameraCell id={c.camera} cameras={cameras} /> },
        { key: "promised", title: "First expected", number: true, cell: (c) => percent(c.promised, 1) },
        { key: "predicted", title: "Expected after replanning", number: true, cell: (c) => percent(c.predicted, 1) },
        { key: "realised", title: "Right", number: true, cell: (c) => (c.realised === null ? <NotYet explained={explained} /> : percent(c.realised, 1)) },
        { key: "frozen", title: "Frozen", number: true, cell: (c) => percent(c.frozen, 1) },
        { key: "gain", title: "Gain", number: true, cell: (c) => <Gain realised={c.realised} frozen={c.frozen} /> },
        { key: "jobs", title: "Retraining", cell: (c) => <Jobs camera={c} /> },
      ]}
    />
  );
}

function NotYet({ explained }: { explained: Explained }) {
  return <span class="quiet">{explained.window.open ? "not yet" : "not measured"}</span>;
}

function Jobs({ camera }: { camera: WindowCamera }) {
  if (camera.jobs.length === 0) return <span class="quiet">none</span>;
  return (
    <ul class="job-list">
      {camera.jobs.map((story) => {
        const { job, outcome, started_s, ended_s } = story;
        const [words, tone] = OUTCOMES[outcome] ?? [outcome, "off"];
        return (
          <li key={job.id}>
            <p>
              <Badge tone={tone}>
                {words}
                {outcome === "running" && ` ${percent(job.fraction)}`}
              </Badge>{" "}
              <span class="quiet">
                {duration(started_s)} after the start
                {ended_s !== null && `, took ${duration(ended_s - started_s)}`}, {job.device_seconds.toFixed(1)} device seconds
                {job.attempt > 1 && `, attempt ${job.attempt}`}
              </span>
            </p>
            <p>{jobWords(story)}</p>
            {job.reason && <p class="quiet">{sentence(job.reason)}</p>}
          </li>
        );
      })}
    </ul>
  );
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function inWords({ cause, cause_camera }: Decision, cameras: Camera[]): string {
  return cause_camera === null ? cause : `${cameraName(cameras, cause_camera)}: ${cause}`;
}

function Decisions({ decisions, cameras, start_utc_s }: { decisions: Decision[]; cameras: Camera[]; start_utc_s: number }) {
  if (decisions.length === 0) return <p class="quiet">No plan was made in this window.</p>;
  return (
    <ol class="decisions">
      {decisions.map((d, n) => (
        <li key={d.plan}>
          <details open={n === 0}>
            <summary>
              <span class="plan-number">Plan {n + 1}</span>
              <span class="cause">{sentence(inWords(d, cameras))}</span>
              <span class="quiet">
                {clock(start_utc_s + d.at_s)}, expects {percent(d.objective, 1)} on average
              </span>
            </summary>
            {d.until_s <= d.at_s && <p class="quiet">Replaced by the next plan at once.</p>}
            {d.faults.map((fault) => (
              <p key={`${fault.camera ?? ""} ${fault.message}`} class="problem">
                {fault.camera === null ? sentence(fault.message) : `${cameraName(cameras, fault.camera)}: ${fault.message}`}
              </p>
            ))}
            {d.whole.length + d.recorded.length > 0 && (
              <ul class="reasons">
                {[...d.whole, ...d.recorded].map((reason) => (
                  <li key={reason}>{reason}.</li>
                ))}
              </ul>
            )}
            <dl class="reasons-by-camera">
              {Object.entries(d.cameras).map(([camera, reasons]) => (
                <div key={camera}>
                  <dt>
                    <span class="dot" style={{ background: colourOf(cameras, "inference", camera) }} aria-hidden="true" /> {cameraName(cameras, camera)}
                  </dt>
                  <dd>
                    <ul class="reasons">
                      {reasons.map((reason) => (
                        <li key={reason}>{reason}.</li>
                      ))}
                    </ul>
                  </dd>
                </div>
              ))}
            </dl>
            <p class="quiet small">
              Policy {d.policy}; planned in {(1000 * d.decision_s).toFixed(d.decision_s < 0.1 ? 1 : 0)} ms.
            </p>
          </details>
        </li>
      ))}
    </ol>
  );
}

function Expected({ explained, cameras }: { explained: Explained; cameras: Camera[] }) {
  const some = explained.cameras.filter((c) => c.steps.length > 0);
  const [chosen, setChosen] = useState("");
  const shown = some.find((c) => c.camera === chosen) ?? some[0];
  if (shown === undefined) return <p class="quiet">Nothing was planned for your cameras in this window.</p>;
  const x = [...shown.steps.map((s) => s[0]), shown.steps.at(-1)?.[1] ?? 0];
  const flat = (value: number | null): (number | null)[] => x.map(() => value);
  return (
    <>
      <CameraChoice cameras={cameras} among={some} chosen={shown.camera} onChoose={setChosen} />
      <Chart
        title={`Expected accuracy of ${cameraName(cameras, shown.camera)} over the window`}
        x={x}
        xName="Seconds after the start"
        series={[
          { label: "Expected", values: [...shown.steps.map((s) => s[2]), shown.steps.at(-1)?.[2] ?? null], colour: "--accent", stepped: true },
          { label: "Right, measured", values: flat(shown.realised), colour: "--wait" },
          { label: "Frozen, measured", values: flat(shown.frozen), colour: "--frozen", dashed: true },
        ]}
        write={(v) => percent(v)}
        range={[0, 1]}
        height={170}
      />
    </>
  );
}

interface ChoiceProps {
  cameras: Camera[];
  among: WindowCamera[];
  chosen: string;
  onChoose: (camera: string) => void;
}

function CameraChoice({ cameras, among, chosen, onChoose }: ChoiceProps) {
  if (among.length < 2) return null;
  return (
    <label class="choice">
      Camera
      <select value={chosen} onChange={(e) => onChoose(e.currentTarget.value)}>
        {among.map((c) => (
          <option key={c.camera} value={c.camera}>
            {cameraName(cameras, c.camera)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Considered({ explained, cameras }: { explained: Explained; cameras: Camera[] }) {
  const some = explained.cameras.filter((c) => c.options.length > 0);
  const [chosen, setChosen] = useState("");
  const [all, setAll] = useState(false);
  const shown = some.find((c) => c.camera === chosen) ?? some[0];
  if (shown === undefined) {
    return <p class="quiet">Nothing was estimated for this window: there were no labels yet, or nothing was to be retrained.</p>;
  }
  return (
    <>
      <CameraChoice cameras={cameras} among={some} chosen={shown.camera} onChoose={setChosen} />
      <Table
        caption={`Ways to retrain ${cameraName(cameras, shown.camera)}, the most accurate first`}
        rows={shown.options.filter((o, n) => all || o.chosen || n < FEW)}
        rowKey={(o) => o.config}
        rowClass={(o) => (o.chosen ? "chosen" : "")}
        columns={[
          { key: "words", title: "What", cell: (o) => sentence(o.words) },
          { key: "verdict", title: "Decision", cell: (o) => (o.chosen ? <Badge tone="good">{sentence(o.verdict)}</Badge> : <span class="quiet">{sentence(o.verdict)}</span>) },
          { key: "bar", title: "Expected accuracy", cell: (o) => <Interval option={o} /> },
          { key: "cost", title: "Device seconds", number: true, cell: (o) => range(o.device_seconds, (v) => v.toFixed(1)) },
          {
            key: "rate",
            title: "Points per device second",
            number: true,
            cell: (o) => (o.gain_per_device_second === null ? "–" : (100 * o.gain_per_device_second).toFixed(1).replace("-", "−")),
          },
        ]}
      />
      {shown.options.length > FEW && (
        <button type="button" class="link more" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${shown.options.length} ways`}
        </button>
      )}
    </>
  );
}

function range(estimate: Estimate, write: (value: number) => string) {
  return (
    <span>
      {write(estimate.value)}{" "}
      <span class="quiet small">
        {write(estimate.low)}–{write(estimate.high)}
      </span>
    </span>
  );
}

/** The estimate with its interval; the thin mark is the model as it was. */
function Interval({ option }: { option: Option }) {
  const { value, low, high } = option.end_accuracy;
  return (
    <div class="interval">
      <span class="interval-track" aria-hidden="true">
        <span class="interval-span" style={{ left: `${100 * low}%`, width: `${100 * Math.max(0, high - low)}%` }} />
        <span class="interval-start" style={{ left: `${100 * option.start_accuracy}%` }} />
        <span class="interval-value" style={{ left: `${100 * value}%` }} />
      </span>
      <span>
        {percent(value)}{" "}
        <span class="quiet small">
          {Math.round(100 * low)}–{percent(high)}, was {percent(option.start_accuracy)}
        </span>
      </span>
    </div>
  );
}

function Usage({ usage, cameras }: { usage: UsedShare[]; cameras: Camera[] }) {
  const most = Math.max(0.01, ...usage.flatMap((u) => [u.asked, u.granted, u.used]));
  const name = (u: UsedShare): string => {
    const many = usage.filter((o) => o.kind === u.kind && o.camera === u.camera).length > 1;
    return partName(cameras, u.kind, u.camera) + (many ? ` (${u.worker})` : "");
  };
  return (
    <Table
      caption="Shares asked for, given and used by each worker"
      rows={usage}
      rowKey={(u) => `${u.worker} ${u.device_seconds}`}
      empty="Recorded when the window ends."
      columns={[
        { key: "worker", title: "Worker", cell: name },
        { key: "asked", title: "Asked", number: true, cell: (u) => percent(u.asked, 1) },
        { key: "granted", title: "Given", number: true, cell: (u) => percent(u.granted, 1) },
        { key: "used", title: "Used", number: true, cell: (u) => percent(u.used, 1) },
        {
          key: "bar",
          title: "Used of given",
          cell: (u) => (
            <span class="use" aria-hidden="true">
              <span class="use-granted" style={{ width: `${(100 * u.granted) / most}%` }} />
              <span class="use-used" style={{ width: `${(100 * u.used) / most}%`, backgroundColor: colourOf(cameras, u.kind, u.camera) }} />
            </span>
          ),
        },
        { key: "wall", title: "Ran for", number: true, cell: (u) => duration(u.wall_s) },
        { key: "held", title: "Held back", number: true, cell: (u) => percent(u.throttled_fraction, 1) },
      ]}
    />
  );
}

const COSTS: Record<string, string> = {
  labelling: "Labelling",
  profiling: "Trials",
  retraining: "Retraining",
  inference: "Inference",
  planning: "Planning",
};

function CostsAndLosses({ explained, cameras }: { explained: Explained; cameras: Camera[] }) {
  const kinds = [...new Set(explained.costs.map((c) => c.kind))];
  const cost = (camera: string | null, kind: string): string => {
    const found = explained.costs.find((c) => c.camera === camera && c.kind === kind);
    return found === undefined ? "–" : found.device_seconds.toFixed(1);
  };
  const rows: (WindowCamera | null)[] = [...explained.cameras];
  if (explained.costs.some((c) => c.camera === null)) rows.push(null);
  return (
    <Table
      caption="Device seconds spent for each camera, and what was lost"
      rows={rows}
      rowKey={(c) => c?.camera ?? "(all)"}
      empty="Nothing is recorded."
      columns={[
        { key: "camera", title: "Camera", cell: (c) => (c === null ? "All together" : <CameraCell id={c.camera} cameras={cameras} />) },
        ...kinds.map((kind) => ({
          key: kind,
          title: `${COSTS[kind] ?? kind}, device s`,
          number: true,
          cell: (c: WindowCamera | null) => cost(c?.camera ?? null, kind),
        })),
        { key: "frames", title: "Frames labelled", number: true, cell: (c) => (c === null ? "–" : c.frames_labelled.toLocaleString()) },
        {
          key: "delay",
          title: "Waited for labels",
          number: true,
          cell: (c) => (c === null || c.labelling_delay_s === null ? "–" : duration(c.labelling_delay_s)),
        },
        {
          key: "losses",
          title: "Lost",
          cell: (c) => {
            const lost = Object.entries(c?.losses ?? {});
            if (c === null) return "–";
            return lost.length === 0 ? "nothing" : lost.map(([what, n]) => `${what.replaceAll("_", " ")} ${n.toLocaleString()}`).join(", ");
          },
        },
      ]}
    />
  );
}
