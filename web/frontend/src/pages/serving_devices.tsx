/** Each device drawn to scale: the gpu-lets with what runs in them, and what is kept for cameras and others. */

import type { Overview } from "../api";
import { percent } from "../format";
import { Badge } from "../parts/badge";
import type { Executor, Pair, Serving } from "../parts/served";
import { milliseconds, modelColour } from "../parts/served";
import { Table } from "../parts/table";

interface Part {
  key: string;
  name: string;
  share: number;
  colour: string;
}

/** Parts that are no gpu-lets; only the first device carries them. */
function others(serving: Serving, overview: Overview, limited: boolean): Part[] {
  const lets = gpulets(serving, 0).reduce((sum, e) => sum + e.share, 0);
  const cameras = Object.values(overview.shares).reduce((sum, s) => sum + s.inference + s.retraining, 0);
  const parts = [
    { key: "kept", name: "Kept to warm new partitions", share: Math.max(0, serving.share.reserved - lets), colour: "var(--part-warm)" },
    { key: "front", name: "Front", share: overview.serving?.front_share ?? 0, colour: "var(--part-front)" },
    { key: "cameras", name: "Cameras and retraining", share: cameras, colour: "var(--realised)" },
    { key: "golden", name: "Golden model", share: overview.cameras.length > 0 ? overview.golden_share : 0, colour: "var(--golden)" },
    { key: "profiling", name: "Profiling and measuring", share: overview.profiling_share, colour: "var(--profiling)" },
    { key: "control", name: "Control", share: overview.control_share, colour: "var(--control)" },
  ].filter((p) => p.share > 0.001);
  const used = lets + parts.reduce((sum, p) => sum + p.share, 0);
  // A user of some cameras does not see what the others have.
  if (used < 0.995) parts.push({ key: "free", name: limited ? "Other cameras, or free" : "Free", share: 1 - used, colour: "var(--free)" });
  return parts;
}

function gpulets(serving: Serving, device: number): Executor[] {
  return serving.executors.filter((e) => (e.gpulet?.device ?? 0) === device && e.state !== "stopping");
}

function inside(e: Executor): string {
  if (e.gpulet === null) return Object.keys(e.models).join(", ") || "being made ready";
  return e.gpulet.models.map((m) => `${m.name}, batches of ${m.batch}`).join("; ");
}

interface DevicesProps {
  serving: Serving;
  overview: Overview;
  /** Not every camera may be seen. */
  limited: boolean;
}

export function Devices({ serving, overview, limited }: DevicesProps) {
  const count = Math.max(1, serving.problem?.devices ?? 1, ...serving.executors.map((e) => (e.gpulet?.device ?? 0) + 1));
  const names = serving.models.map((m) => m.name);
  const reasons = serving.plan?.reasons ?? [];
  const { device } = overview;
  const units = device.device === "cpu" ? `${device.units} CPU cores` : device.device;
  return (
    <section class="card" aria-labelledby="devices-title">
      <h2 id="devices-title">Gpu-lets on the device</h2>
      <p class="quiet about">
        A gpu-let is a fixed part of the device. Once in each cycle it runs one batch of each of its models; the coloured part of a box is how
        much of the cycle that takes. Widths are shares, to scale.
      </p>
      {[...Array(count).keys()].map((n) => (
        <Device
          key={n}
          title={count > 1 ? `Device ${n}` : units}
          lets={gpulets(serving, n)}
          rest={n === 0 ? others(serving, overview, limited) : []}
          names={names}
        />
      ))}
      {reasons.length > 0 && (
        <>
          <h3>What the planner says</h3>
          <ul class="planner-says">
            {reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

interface DeviceProps {
  title: string;
  lets: Executor[];
  /** Parts that are no gpu-lets. */
  rest: Part[];
  /** Of all served models: each has its colour. */
  names: string[];
}

function Device({ title, lets, rest, names }: DeviceProps) {
  const whole = Math.max(
    1,
    lets.reduce((sum, e) => sum + e.share, 0) + rest.reduce((sum, p) => sum + p.share, 0),
  );
  const spoken = [
    ...lets.map((e) => `${e.id} ${percent(e.share)} with ${inside(e)}`),
    ...rest.map((p) => `${p.name} ${percent(p.share)}`),
  ];
  return (
    <div class="device">
      <h3>{title}</h3>
      <div class="device-bar" role="img" aria-label={`${title}: ${spoken.join(", ")}`}>
        {lets.map((e) => (
          <Let key={e.id} executor={e} names={names} whole={whole} />
        ))}
        {rest.map((p) => (
          <span
            key={p.key}
            class={`device-part ${p.key}`}
            style={{ width: `${(100 * p.share) / whole}%`, backgroundColor: p.colour }}
            title={`${p.name}: ${percent(p.share, 1)}`}
          />
        ))}
      </div>
      <div class="device-scale" aria-hidden="true">
        <span>0 %</span>
        <span>50 %</span>
        <span>100 %</span>
      </div>
      <ul class="device-legend">
        {lets.map((e) => (
          <li key={e.id}>
            <span class="swatch" style={{ backgroundColor: `var(${modelColour(names, letModels(e)[0] ?? "")})` }} aria-hidden="true" />
            {letModels(e).join(" + ") || e.id} <span class="number">{percent(e.share, 1)}</span>
          </li>
        ))}
        {rest.map((p) => (
          <li key={p.key}>
            <span class={p.key === "free" ? "swatch free" : "swatch"} style={{ backgroundColor: p.colour }} aria-hidden="true" />
            {p.name} <span class="number">{percent(p.share, 1)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function letModels(e: Executor): string[] {
  return e.gpulet === null ? Object.keys(e.models) : e.gpulet.models.map((m) => m.name);
}

function Let({ executor, names, whole }: { executor: Executor; names: string[]; whole: number }) {
  const { gpulet } = executor;
  return (
    <span
      class={executor.connected ? "gpu-let" : "gpu-let starting"}
      style={{ width: `${(100 * executor.share) / whole}%` }}
      title={`${executor.id}: ${percent(executor.share, 1)}, ${inside(executor)}`}
    >
      <span class="gpu-let-cycle">
        {(gpulet?.models ?? []).map((m) => (
          <span
            key={m.name}
            style={{
              width: `${Math.min(100, (100 * (m.batch_ms ?? 0)) / Math.max(0.001, gpulet?.duty_cycle_ms ?? 1))}%`,
              backgroundColor: `var(${modelColour(names, m.name)})`,
            }}
          />
        ))}
      </span>
      <span class="gpu-let-words">
        {gpulet === null
          ? inside(executor)
          : gpulet.models.map((m) => (
              <span key={m.name}>
                {m.name} ×{m.batch}
              </span>
            ))}
      </span>
    </span>
  );
}

const STATES: Record<string, string> = {
  starting: "Starting",
  connected: "Connected",
  loading: "Loading",
  warming: "Warming up",
  ready: "Ready",
  draining: "Finishing what it has",
  stopping: "Stopping",
  lost: "Lost, started again",
};

export function Executors({ serving }: { serving: Serving }) {
  return (
    <section class="card" aria-labelledby="executors-title">
      <h2 id="executors-title">Executors</h2>
      <p class="quiet about">One process for each gpu-let. “Busy” is of the last second.</p>
      <Table
        caption="Executors and their gpu-lets"
        rows={serving.executors}
        rowKey={(e) => e.id}
        empty="No executor runs: nothing is asked for, or models are still being made ready."
        columns={[
          { key: "id", title: "Executor", cell: (e) => e.id },
          {
            key: "state",
            title: "State",
            cell: (e) => <Badge tone={e.connected ? "good" : "wait"}>{STATES[e.state] ?? e.state.charAt(0).toUpperCase() + e.state.slice(1)}</Badge>,
          },
          { key: "share", title: "Share", number: true, cell: (e) => percent(e.share, 1) },
          {
            key: "models",
            title: "Models, batch, time planned",
            cell: (e) => (
              <ul>
                {e.gpulet === null
                  ? Object.entries(e.models).map(([name, version]) => (
                      <li key={name}>
                        {name} <span class="quiet">version {version}</span>
                      </li>
                    ))
                  : e.gpulet.models.map((m) => (
                      <li key={m.name}>
                        {m.name} ×{m.batch} <span class="quiet">{milliseconds(m.batch_ms)}</span>
                      </li>
                    ))}
              </ul>
            ),
          },
          { key: "cycle", title: "Cycle", number: true, cell: (e) => milliseconds(e.gpulet?.duty_cycle_ms) },
          { key: "batches", title: "Batches/s", number: true, cell: (e) => e.batches },
          { key: "busy", title: "Busy", number: true, cell: (e) => percent(Math.min(1, e.busy_s)) },
        ]}
      />
    </section>
  );
}

/** A stretch of less than one in a hundred is no stretch. */
function factor(value: number) {
  return <span class={value > 1.1 ? "lost" : value < 1.01 ? "quiet" : ""}>×{value.toFixed(2)}</span>;
}

export function Interference({ serving }: { serving: Serving }) {
  const found = serving.interference;
  const pairs = found?.pairs ?? [];
  const alone = (p: Pair): Pair[] => pairs.filter((o) => o.gpulet === p.gpulet && o.model === p.model && o.beside !== null);
  const rows = pairs.filter((p) => p.beside === null && alone(p).length > 0);
  const named = (id: string): string => {
    const executor = serving.executors.find((e) => e.id === id);
    return executor === undefined ? id : letModels(executor).join(" + ") || id;
  };
  return (
    <section class="card" aria-labelledby="interference-title">
      <h2 id="interference-title">Interference</h2>
      <p class="quiet about">
        How much longer a batch is predicted to take because of what runs beside it on the same device: ×1.00 is as if alone. Plans count
        with it.
      </p>
      {rows.length === 0 ? (
        <p class="quiet">No two gpu-lets share a device now.</p>
      ) : (
        <>
          {found !== undefined && !found.measured && (
            <p class="quiet">The device's table has no measured interference: none is assumed. magpie profile can measure it.</p>
          )}
          <Table
            caption="Predicted stretch of each model's batches"
            rows={rows}
            rowKey={(p) => `${p.gpulet}-${p.model}`}
            columns={[
              {
                key: "model",
                title: "Model",
                cell: (p) => (
                  <span>
                    {p.model} ×{p.batch} <span class="quiet small">in {p.gpulet}</span>
                  </span>
                ),
              },
              {
                key: "pairs",
                title: "Beside",
                cell: (p) => (
                  <ul class="pairs">
                    {alone(p).map((o) => (
                      <li key={o.beside}>
                        {named(o.beside ?? "")} {factor(o.factor)}
                      </li>
                    ))}
                  </ul>
                ),
              },
              { key: "all", title: "Beside all of them", number: true, cell: (p) => factor(p.factor) },
            ]}
          />
        </>
      )}
    </section>
  );
}
