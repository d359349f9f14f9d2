/** Served models: are requests answered in time, who has which part of the device, and would more fit. */

import { useEffect, useRef, useState } from "preact/hooks";

import { percent } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import type { Tone } from "../parts/badge";
import { Chart } from "../parts/chart";
import type { ModelState, ServedModel, Serving } from "../parts/served";
import { milliseconds, modelColour, rate } from "../parts/served";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { may, seesAll } from "../session";
import type { PageProps } from "./page";
import { AdmissionCard } from "./serving_admission";
import { Applications } from "./serving_applications";
import { Devices, Executors, Interference } from "./serving_devices";
import { ModelDialog, PlanningCard } from "./serving_settings";
import "../styles/serving.css";

const EVERY_S = 2;
/** So many answers are kept for the charts: ten minutes. */
const KEPT = 300;

const STATES: Record<ModelState, [string, Tone]> = {
  serving: ["Serving", "good"],
  capped: ["Served in part", "wait"],
  refused: ["Refused", "bad"],
  failed: ["Failed", "bad"],
  starting: ["Starting", "info"],
  checking: ["Being checked", "info"],
  measuring: ["Being measured", "info"],
  waiting: ["Waits for its models", "wait"],
};

interface Past {
  utc_s: number[];
  rates: Map<string, (number | null)[]>;
  p99: Map<string, (number | null)[]>;
  missed: Map<string, (number | null)[]>;
}

/** The history since the page is open: one point for each answer of REST. */
function usePast(serving: Serving | null, now_s: number): Past {
  const past = useRef<Past>({ utc_s: [], rates: new Map(), p99: new Map(), missed: new Map() });
  const last = useRef<Serving | null>(null);
  if (serving !== null && serving !== last.current) {
    last.current = serving;
    const { utc_s, rates, p99, missed } = past.current;
    const length = utc_s.push(now_s);
    const put = (into: Map<string, (number | null)[]>, name: string, value: number | null): void => {
      const line = into.get(name) ?? new Array<number | null>(length - 1).fill(null);
      line.push(value);
      into.set(name, line);
    };
    for (const model of serving.models) {
      put(rates, model.name, model.rate);
      put(p99, model.name, model.latency_ms[2] ?? null);
      put(missed, model.name, model.violations_recent);
    }
    for (const lines of [rates, p99, missed]) {
      for (const [name, line] of lines) {
        if (line.length < length) put(lines, name, null);
        if (line.length > KEPT) line.shift();
      }
    }
    if (utc_s.length > KEPT) utc_s.shift();
  }
  return past.current;
}

export function ServingPage({ known, me, now_s }: PageProps) {
  const overview = known.overview;
  const serves = Boolean(overview?.serving);
  const asked = useAsked<Serving>(serves ? "/serving" : null, null, EVERY_S);
  const [changed, setChanged] = useState<Serving | null>(null);
  const serving = asked.value;
  // The answer to a change is shown until the next answer comes.
  useEffect(() => setChanged(null), [serving]);
  const past = usePast(serving, now_s);
  if (overview === null) return null;
  const head = (
    <div class="page-head">
      <h1>Serving</h1>
      <p class="quiet">Models that answer requests of other programs, on the same device as the cameras.</p>
    </div>
  );
  const allowed = may(me, "operator") && seesAll(me);
  if (!serves) {
    return (
      <>
        {head}
        <HowToStart />
        <AdmissionCard models={[]} applications={[]} overview={overview} me={me} />
      </>
    );
  }
  if (serving === null) {
    return (
      <>
        {head}
        {asked.error === null ? (
          <Loading what="Loading the served models" />
        ) : (
          <ErrorBox what="The served models could not be loaded" error={asked.error} onRetry={asked.again} />
        )}
      </>
    );
  }
  const shown = changed ?? serving;
  return (
    <>
      {head}
      <Summary serving={shown} />
      <Models serving={shown} allowed={allowed} onChanged={setChanged} />
      <Applications applications={shown.applications} models={shown.models} />
      <Devices serving={shown} overview={overview} limited={!seesAll(me)} />
      <History serving={shown} past={past} />
      <Interference serving={shown} />
      <Executors serving={shown} />
      <AdmissionCard
        models={shown.models.filter((m) => m.kind === "model")}
        applications={shown.applications.map((a) => a.name)}
        overview={overview}
        me={me}
      />
      <PlanningCard serving={shown} me={me} onChanged={setChanged} />
    </>
  );
}

function HowToStart() {
  return (
    <section class="card how-to-start" aria-labelledby="start-title">
      <h2 id="start-title">This site serves no models</h2>
      <p>
        Magpie can serve other models on the same device: a plate reader, a pose model, a speech model. Each request is answered within its
        objective, on the smallest share that holds it; cameras and their retraining have the rest. To begin:
      </p>
      <ol>
        <li>
          Put each model into a folder: a <code>model.yaml</code>, and a folder for each version, as <code>models/plates/1/model.onnx</code>.
        </li>
        <li>
          Measure it on this box: <code>magpie profile --models models --out plates.json</code>. A model that is not measured is measured when it is
          first loaded.
        </li>
        <li>Add this section to the site's configuration file, and start the appliance again:</li>
      </ol>
      <pre tabIndex={0} role="region" aria-label="Section of the site's configuration">
        <code>{`serving:
  folder: models
  tables: [plates.json]
  http: {host: 127.0.0.1, port: 8000}
  grpc: {host: 127.0.0.1, port: 8001}
  planning:
    max_share: 0.6
    models:
      plates: {rate: 20, slo_ms: 80, priority: 1}
`}</code>
      </pre>
      <p>
        Then send requests by the Open Inference Protocol (KServe v2) to port 8000 or 8001, as <code>tritonclient</code> does. More is in
        docs/serving.md.
      </p>
    </section>
  );
}

function Summary({ serving }: { serving: Serving }) {
  const { front, share } = serving;
  const serves = serving.models.filter((m) => m.state === "serving").length;
  const address = (a: { host: string; port: number | null }): string => (a.port === null ? "not listening" : `${a.host}:${a.port}`);
  return (
    <section class="card serving-summary" aria-label="In short">
      <dl>
        <div>
          <dt>Front</dt>
          <dd>{front.up ? <Badge tone="good">Listening</Badge> : <Badge tone="bad">Starting again</Badge>}</dd>
        </div>
        <div>
          <dt>HTTP</dt>
          <dd>{address(front.http)}</dd>
        </div>
        <div>
          <dt>gRPC</dt>
          <dd>{address(front.grpc)}</dd>
        </div>
        <div>
          <dt>Models served whole</dt>
          <dd>
            {serves} of {serving.models.length}
          </dd>
        </div>
        <div>
          <dt>Share planned, held, allowed</dt>
          <dd>
            {percent(share.planned)}, {percent(share.reserved)}, {percent(share.most)}
          </dd>
        </div>
        <div>
          <dt>With cameras at their best</dt>
          <dd>{percent(share.beside_cameras)}</dd>
        </div>
        <div>
          <dt>Plan</dt>
          <dd>
            {serving.reorganising ? (
              <Badge tone="wait">Reorganising</Badge>
            ) : serving.plan === null ? (
              <Badge tone="off">None yet</Badge>
            ) : (
              <Badge tone={serving.plan.schedulable ? "good" : "wait"}>{serving.plan.schedulable ? "Holds" : "Does not hold for all"}</Badge>
            )}
          </dd>
        </div>
      </dl>
      {serving.reorganising && (
        <p class="quiet">New partitions are started and warmed beside the old ones; no request is lost while the plan changes.</p>
      )}
    </section>
  );
}

interface ModelsProps {
  serving: Serving;
  allowed: boolean;
  onChanged: (serving: Serving) => void;
}

function Models({ serving, allowed, onChanged }: ModelsProps) {
  const [changing, setChanging] = useState<string | null>(null);
  const model = serving.models.find((m) => m.name === changing);
  return (
    <section class="card" aria-labelledby="models-title">
      <h2 id="models-title">Models</h2>
      <Table
        caption="Served models"
        rows={serving.models}
        rowKey={(m) => m.name}
        empty="The model folder is empty."
        columns={[
          {
            key: "name",
            title: "Model",
            cell: (m) => (
              <span>
                {m.name}
                {m.version !== null && <span class="quiet small"> version {m.version}</span>}
                {m.kind === "application" && <span class="quiet small"> application</span>}
                <Queues two={m.two_queues} />
              </span>
            ),
          },
          { key: "state", title: "State", cell: (m) => <State model={m} /> },
          { key: "rate", title: "Requests/s, planned for", number: true, cell: (m) => `${rate(m.rate)}, ${rate(m.planned_rate)}` },
          { key: "latency", title: "Latency p50, p99 of objective", cell: (m) => <Latency model={m} /> },
          {
            key: "missed",
            title: "Missed lately",
            number: true,
            cell: (m) => <span class={m.violations_recent > 0.01 ? "lost" : ""}>{percent(m.violations_recent, 1)}</span>,
          },
          { key: "priority", title: "Priority", number: true, cell: (m) => m.priority },
          { key: "total", title: "Since the start", cell: (m) => <Totals model={m} /> },
          ...(allowed
            ? [
                {
                  key: "change",
                  title: "Change",
                  cell: (m: ServedModel) =>
                    m.kind === "model" ? (
                      <button type="button" class="link" aria-label={`Change ${m.name}`} onClick={() => setChanging(m.name)}>
                        Change
                      </button>
                    ) : (
                      <span class="quiet">by its models</span>
                    ),
                },
              ]
            : []),
        ]}
      />
      {!allowed && <p class="quiet small">Rates, objectives and priorities are changed by an operator who may see every camera.</p>}
      {model !== undefined && <ModelDialog model={model} serving={serving} onChanged={onChanged} onClose={() => setChanging(null)} />}
    </section>
  );
}

function State({ model }: { model: ServedModel }) {
  const [words, tone] = STATES[model.state] ?? [model.state, "off"];
  return (
    <div>
      <Badge tone={tone}>{words}</Badge>
      {model.state === "capped" && <p class="small">{percent(model.served_part)} of the rate that is asked for is served; the rest is turned away at once.</p>}
      {model.reason && <p class="small quiet">{model.reason.message}</p>}
    </div>
  );
}

/** A model whose requests wait in two queues: each queue as planned, and why there are two. */
function Queues({ two }: { two: ServedModel["two_queues"] }) {
  if (two === null) return null;
  return (
    <details class="small">
      <summary>Two queues</summary>
      <ul class="reasons">
        {two.queues.map((q) => (
          <li key={q.number}>
            {askers(q).join("; ")}: within{" "}
            {milliseconds(q.budget_ms)}, {rate(q.rate)} rows a second, on {percent(q.share)} of the device.
          </li>
        ))}
      </ul>
      <p class="quiet">
        {two.reason === "fits"
          ? "With one queue not all requests could be served."
          : `All models together take ${percent(two.share)}; with one queue they would take ${percent(two.one_share)}.`}
      </p>
    </details>
  );
}

/** Those that wait in a queue; a user of some cameras is not shown the stages. */
function askers(queue: { number: number; stages: readonly { application: string; stage: string }[] }): string[] {
  const stages = queue.stages.map((s) => `${s.application}, ${s.stage}`);
  if (queue.number === 0) return ["clients", ...stages];
  return stages.length > 0 ? stages : ["applications"];
}

/** How far from the objective: the mark is the objective, the bar the slowest of a hundred requests. */
function Latency({ model }: { model: ServedModel }) {
  const [p50, , p99] = model.latency_ms;
  if (model.slo_ms === null) return <>–</>;
  if (p50 === undefined || p99 === undefined) return <span class="quiet">no requests yet; {milliseconds(model.slo_ms)} allowed</span>;
  const scale = 1.25 * model.slo_ms;
  const late = p99 > model.slo_ms;
  return (
    <div class="latency">
      <span class="latency-track" aria-hidden="true">
        <span class={late ? "latency-bar late" : "latency-bar"} style={{ width: `${Math.min(100, (100 * p99) / scale)}%` }} />
        <span class="latency-mid" style={{ left: `${Math.min(100, (100 * p50) / scale)}%` }} />
        <span class="latency-slo" />
      </span>
      <span class="small">
        {milliseconds(p50)}, {milliseconds(p99)} <span class="quiet">of {milliseconds(model.slo_ms)}</span>
        {late && <strong class="lost"> too slow</strong>}
      </span>
    </div>
  );
}

function Totals({ model }: { model: ServedModel }) {
  const { answered, late, dropped, rejected, failed, cancelled } = model.total;
  const lost = Object.entries({ late, dropped, rejected, failed, cancelled }).filter(([, n]) => n > 0);
  return (
    <span class="small">
      {answered.toLocaleString()} answered
      {lost.map(([what, n]) => `, ${n.toLocaleString()} ${what}`).join("")}
      {model.queued + model.running > 0 && <span class="quiet"> ({model.queued} waiting, {model.running} running)</span>}
    </span>
  );
}

type Shown = "rates" | "p99" | "missed";

const SHOWN: Record<Shown, [string, (value: number) => string]> = {
  rates: ["Requests per second", (v) => rate(v)],
  p99: ["Latency of the slowest in a hundred (p99)", (v) => milliseconds(v)],
  missed: ["Requests that missed their objective", (v) => percent(v, 1)],
};

function History({ serving, past }: { serving: Serving; past: Past }) {
  const [what, setWhat] = useState<Shown>("rates");
  const names = serving.models.map((m) => m.name);
  const [title, write] = SHOWN[what];
  return (
    <section class="card" aria-labelledby="history-title">
      <div class="section-head">
        <h2 id="history-title">Over time</h2>
        <label>
          Show
          <select value={what} onChange={(e) => setWhat(e.currentTarget.value as Shown)}>
            {Object.entries(SHOWN).map(([id, [words]]) => (
              <option key={id} value={id}>
                {words}
              </option>
            ))}
          </select>
        </label>
      </div>
      <p class="quiet about">Collected while this page is open, ten minutes at most. /metrics has the same for Prometheus.</p>
      {past.utc_s.length < 2 ? (
        <Loading what="Waiting for the second measurement" />
      ) : (
        <Chart
          title={title}
          x={[...past.utc_s]}
          xKind="time"
          xName="Time"
          series={names.map((name) => ({ label: name, values: [...(past[what].get(name) ?? [])], colour: modelColour(names, name) }))}
          write={write}
          height={200}
        />
      )}
    </section>
  );
}
