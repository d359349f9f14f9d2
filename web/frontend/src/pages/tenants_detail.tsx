/** One tenant: what was learned of it, what it reached in the last day, and what it is. */

import { useEffect, useState } from "preact/hooks";

import { ago, clock, moment, percent } from "../format";
import { useAsked } from "../parts/asking";
import { Chart } from "../parts/chart";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import type { Actions } from "../parts/tenant_row";
import { RowActions, ShareBar, State } from "../parts/tenant_row";
import type { Tenant, TenantCurve, TenantDetail, TenantHistoryRow } from "../parts/tenants";
import { FORGOTTEN, METRICS, part, reasonWords, sourceWords, tenantName, UTILITIES } from "../parts/tenants";

const EVERY_S = 5;
/** So many of the recent reports are in the table. */
const SHOWN = 12;

interface Props {
  tenant: Tenant;
  tenants: Tenant[];
  rows: TenantHistoryRow[];
  now_s: number;
  actions: Actions | null;
}

export function TenantDetailCards({ tenant, tenants, rows, now_s, actions }: Props) {
  const asked = useAsked<TenantDetail>(`/tenants/${encodeURIComponent(tenant.id)}`, null, EVERY_S);
  const curve = asked.value?.curve ?? null;
  return (
    <>
      <section class="card tenant-now" aria-labelledby="tenant-title">
        <div class="card-head">
          <h2 id="tenant-title">{tenantName(tenants, tenant.id)}</h2>
          {actions !== null && <RowActions tenant={tenant} tenants={tenants} actions={actions} />}
        </div>
        <Now tenant={tenant} tenants={tenants} />
      </section>
      <section class="card" aria-labelledby="curve-title">
        <h2 id="curve-title">What a share brings</h2>
        <p class="quiet about">
          Learned from what was measured, at the present load. The band holds about nine of ten values. Each dot is a recent report; the large one is the
          last. The line is the share that it has now.
        </p>
        {curve !== null ? (
          <>
            <Curve curve={curve} tenant={tenant} />
            <Reports curve={curve} now_s={now_s} serves={tenant.settings.objective.metric === "within_slo"} />
          </>
        ) : asked.error === null ? (
          <Loading what="Loading the curve" />
        ) : (
          <ErrorBox what="The curve could not be loaded" error={asked.error} onRetry={asked.again} />
        )}
      </section>
      <section class="card" aria-labelledby="day-title">
        <h2 id="day-title">The last day</h2>
        <Day rows={rows} tenant={tenant} />
      </section>
    </>
  );
}

function Now({ tenant, tenants }: { tenant: Tenant; tenants: Tenant[] }) {
  const { settings, demand, learned } = tenant;
  const members = [...tenant.models, ...tenant.applications, ...tenant.cameras].join(", ");
  const whole = tenants.reduce((sum, t) => sum + t.held, 0);
  return (
    <>
      <p class="verdict">{reasonWords(tenant, tenants)}</p>
      <dl class="facts">
        <div>
          <dt>State</dt>
          <dd>
            <State tenant={tenant} />
          </dd>
        </div>
        <div>
          <dt>Reached, goal</dt>
          <dd>
            {percent(tenant.performance, 1)}, {percent(tenant.goal, 1)}
          </dd>
        </div>
        <div>
          <dt>Share held, entitlement</dt>
          <dd>
            <ShareBar tenant={tenant} whole={whole} />
          </dd>
        </div>
        <div>
          <dt>Share in use</dt>
          <dd>{percent(tenant.given)}</dd>
        </div>
        <div>
          <dt>Share that the goal needs</dt>
          <dd>
            {demand.share !== null
              ? percent(demand.share)
              : demand.best === null
                ? "not known"
                : `out of reach: ${percent(demand.best, 1)} is expected with the whole box`}
            {demand.low !== null && demand.high !== null && (
              <span class="quiet">
                , between {percent(demand.low)} and {percent(demand.high)}
              </span>
            )}
          </dd>
        </div>
        {tenant.load !== null && (
          <div>
            <dt>Load</dt>
            <dd>{tenant.load.toFixed(1)} requests a second</dd>
          </div>
        )}
        <div>
          <dt>Known from</dt>
          <dd>{sourceWords(tenant)}</dd>
        </div>
        <div>
          <dt>Last report</dt>
          <dd>{learned.age_s === null ? "none yet" : ago(learned.age_s)}</dd>
        </div>
        <div>
          <dt>Changes noticed</dt>
          <dd>{learned.changes}</dd>
        </div>
        {learned.dropped > 0 && (
          <div>
            <dt>Values that were not usable</dt>
            <dd>{learned.dropped.toLocaleString()}</dd>
          </div>
        )}
        <div>
          <dt>Last forgotten</dt>
          <dd>
            {learned.forgotten === null || learned.forgotten_utc_s === null ? "never" : `${moment(learned.forgotten_utc_s)}: ${FORGOTTEN[learned.forgotten] ?? learned.forgotten}`}
          </dd>
        </div>
        <div>
          <dt>Members</dt>
          <dd>{members || "none now"}</dd>
        </div>
        <div>
          <dt>Measured by</dt>
          <dd>{METRICS[settings.objective.metric]}</dd>
        </div>
        <div>
          <dt>Utility below the goal</dt>
          <dd>{UTILITIES[settings.objective.utility]}</dd>
        </div>
      </dl>
    </>
  );
}

function useWidth(): [ref: (place: HTMLDivElement | null) => void, width: number] {
  // The place is another one whenever the table is closed.
  const [place, setPlace] = useState<HTMLDivElement | null>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (place === null) return undefined;
    const sized = new ResizeObserver((entries) => setWidth(Math.round(entries[0]?.contentRect.width ?? 0)));
    sized.observe(place);
    return () => sized.disconnect();
  }, [place]);
  return [setPlace, width];
}

const HEIGHT = 240;
const LEFT = 46;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 34;

/** The curve with its band. Drawn at the width that there is, so that its words stay readable. */
function Curve({ curve, tenant }: { curve: TenantCurve; tenant: Tenant }) {
  const [place, width] = useWidth();
  const [asTable, setAsTable] = useState(false);
  const { points, reports, now, last } = curve;
  if (points.length === 0) return <p class="quiet">Nothing was measured yet, so no curve is known.</p>;
  const most = Math.max(...points.map((p) => p.share), tenant.held, now ?? 0);
  const x = (share: number): number => LEFT + ((width - LEFT - RIGHT) * share) / most;
  const y = (value: number): number => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value);
  const line = (of: "performance" | "low" | "high", back = false): string => {
    const along = back ? [...points].reverse() : [...points];
    return along.map((p) => `${x(p.share).toFixed(1)} ${y(p[of]).toFixed(1)}`).join(" L");
  };
  const steps = width < 500 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const at = points.reduce((best, p) => (Math.abs(p.share - tenant.held) < Math.abs(best.share - tenant.held) ? p : best), points[0]!);
  const label = `Expected performance by share. At ${percent(at.share)}: ${percent(at.performance, 1)}, between ${percent(at.low, 1)} and ${percent(at.high, 1)}; goal ${percent(curve.goal, 1)}`;
  return (
    <figure class="chart-figure curve">
      <figcaption class="legend-row">
        <span>
          <span class="key expected" aria-hidden="true" />
          Expected
        </span>
        <span>
          <span class="key band" aria-hidden="true" />
          Band
        </span>
        <span>
          <span class="key goal" aria-hidden="true" />
          Goal
        </span>
        <span>
          <span class="key right" aria-hidden="true" />
          Entitlement
        </span>
        <span>
          <span class="key now" aria-hidden="true" />
          Share now
        </span>
        <button type="button" class="link small" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? "Show as chart" : "Show as table"}
        </button>
      </figcaption>
      {asTable ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="Expected performance by share, as a table">
          <Table
            caption="Expected performance by share"
            rows={points.filter((_, n) => n % Math.max(1, Math.ceil(points.length / 20)) === 0)}
            rowKey={(p) => p.share}
            columns={[
              { key: "share", title: "Share", cell: (p) => part(p.share) },
              { key: "expected", title: "Expected", number: true, cell: (p) => percent(p.performance, 1) },
              { key: "low", title: "From", number: true, cell: (p) => percent(p.low, 1) },
              { key: "high", title: "To", number: true, cell: (p) => percent(p.high, 1) },
            ]}
          />
        </div>
      ) : (
        <div ref={place}>
          <svg width={width} height={HEIGHT} role="img" aria-label={label}>
            {width > 0 && (
              <>
                {[0, 0.25, 0.5, 0.75, 1].map((v) => (
                  <g key={v}>
                    <path class="grid" d={`M${LEFT} ${y(v)} H${width - RIGHT}`} />
                    <text x={LEFT - 6} y={y(v) + 4} text-anchor="end">
                      {percent(v)}
                    </text>
                  </g>
                ))}
                {steps.map((s) => (
                  <text key={s} x={x(s * most)} y={HEIGHT - 16} text-anchor={s === 0 ? "start" : s === 1 ? "end" : "middle"}>
                    {percent(s * most)}
                  </text>
                ))}
                <text x={LEFT + (width - LEFT - RIGHT) / 2} y={HEIGHT - 2} text-anchor="middle">
                  share of the device
                </text>
                <path class="band" d={`M${line("high")} L${line("low", true)} Z`} />
                <path class="right" d={`M${x(tenant.entitlement)} ${TOP} V${HEIGHT - BOTTOM}`} />
                {now !== null && <path class="now" d={`M${x(now)} ${TOP} V${HEIGHT - BOTTOM}`} />}
                <path class="goal" d={`M${LEFT} ${y(curve.goal)} H${width - RIGHT}`} />
                <path class="expected" d={`M${line("performance")}`} />
                {reports.map((r) => (
                  <circle key={r.utc_s} class="report" cx={x(r.share)} cy={y(r.performance)} r={2.6} />
                ))}
                {last !== null && <circle class="last" cx={x(last.share)} cy={y(last.performance)} r={6} />}
              </>
            )}
          </svg>
        </div>
      )}
    </figure>
  );
}

function Reports({ curve, now_s, serves }: { curve: TenantCurve; now_s: number; serves: boolean }) {
  const newest = [...curve.reports].reverse().slice(0, SHOWN);
  if (newest.length === 0) return null;
  return (
    <details class="reports">
      <summary>
        The last {newest.length} reports; the newest {ago(now_s - (newest[0]?.utc_s ?? now_s))}
      </summary>
      <Table
        caption="Recent reports"
        rows={newest}
        rowKey={(r) => r.utc_s}
        columns={[
          { key: "at", title: "At", cell: (r) => clock(r.utc_s) },
          { key: "share", title: "Share", number: true, cell: (r) => percent(r.share, 1) },
          { key: "reached", title: "Reached", number: true, cell: (r) => percent(r.performance, 1) },
          ...(serves ? [{ key: "load", title: "Requests/s", number: true, cell: (r: (typeof newest)[number]) => r.load?.toFixed(1) ?? "–" }] : []),
        ]}
      />
    </details>
  );
}

function Day({ rows, tenant }: { rows: TenantHistoryRow[]; tenant: Tenant }) {
  if (rows.length < 2) return <p class="quiet">Rows of five minutes are collected; the second is still to come.</p>;
  const x = rows.map((r) => r.utc_s);
  const write = (v: number): string => percent(v);
  const values = rows.flatMap((r) => (r.performance === null ? [] : [r.performance]));
  const low = Math.max(0, Math.floor(10 * (Math.min(tenant.goal, ...values) - 0.02)) / 10);
  return (
    <div class="day">
      <div>
        <h3>Reached against the goal</h3>
        <Chart
          title="Performance over the last day"
          x={x}
          xKind="time"
          xName="Time"
          write={write}
          range={[low, 1]}
          height={170}
          series={[
            { label: "Reached", values: rows.map((r) => r.performance), colour: "--realised" },
            { label: "Goal", values: rows.map((r) => r.goal), colour: "--frozen", dashed: true },
          ]}
        />
      </div>
      <div>
        <h3>Share</h3>
        <Chart
          title="Share over the last day"
          x={x}
          xKind="time"
          xName="Time"
          write={write}
          height={170}
          series={[
            { label: "Held", values: rows.map((r) => r.held), colour: "--part-serving", stepped: true },
            { label: "In use", values: rows.map((r) => r.given), colour: "--realised", stepped: true },
            { label: "Floor", values: rows.map((r) => r.floor), colour: "--frozen", dashed: true },
          ]}
        />
      </div>
    </div>
  );
}
