/** One tenant: what was learned of it, what it reached in the last day, and what it is. */

import type { ComponentChildren } from "preact";

import { ago, clock, moment, percent } from "../format";
import { useAsked } from "../parts/asking";
import { Chart } from "../parts/chart";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import type { Actions } from "../parts/tenant_row";
import { RowActions, ShareBar, State } from "../parts/tenant_row";
import type { Tenant, TenantCurve, TenantDetail, TenantHistoryRow } from "../parts/tenants";
import { FORGOTTEN, METRICS, outOfReach, reasonWords, sourceWords, tenantName, UTILITIES } from "../parts/tenants";
import { Curve } from "./tenants_curve";

const EVERY_S = 5;
/** So many of the recent reports are in the table. */
const SHOWN = 12;

interface Props {
  tenant: Tenant;
  tenants: Tenant[];
  rows: TenantHistoryRow[];
  now_s: number;
  /** The share that all tenants have together, also those that are not shown to this user. */
  capacity: number;
  actions: Actions | null;
}

export function TenantDetailCards({ tenant, tenants, rows, now_s, capacity, actions }: Props) {
  const asked = useAsked<TenantDetail>(`/tenants/${encodeURIComponent(tenant.id)}`, null, EVERY_S);
  const curve = asked.value?.curve ?? null;
  return (
    <>
      <section class="card tenant-now" aria-labelledby="tenant-title">
        <div class="card-head">
          <h2 id="tenant-title">{tenantName(tenants, tenant.id)}</h2>
          {actions !== null && <RowActions tenant={tenant} tenants={tenants} actions={actions} />}
        </div>
        <Now tenant={tenant} tenants={tenants} whole={capacity} />
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

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Now({ tenant, tenants, whole }: { tenant: Tenant; tenants: Tenant[]; whole: number }) {
  const { settings, learned } = tenant;
  const members = [...tenant.models, ...tenant.applications, ...tenant.cameras].join(", ");
  return (
    <>
      <p class="verdict">{reasonWords(tenant, tenants)}</p>
      <dl class="facts">
        <Fact name="State">
          <State tenant={tenant} />
        </Fact>
        <Fact name="Reached, goal">
          {percent(tenant.performance, 1)}, {percent(tenant.goal, 1)}
        </Fact>
        <Fact name="Share held, entitlement">
          <ShareBar tenant={tenant} whole={whole} />
        </Fact>
        <Fact name="Share in use">{percent(tenant.share.given)}</Fact>
        <Fact name="Share that the goal needs">
          <Needed demand={tenant.demand} />
        </Fact>
        {tenant.load !== null && <Fact name="Load">{tenant.load.toFixed(1)} requests a second</Fact>}
        <Fact name="Known from">{sourceWords(tenant)}</Fact>
        <Fact name="Last report">{learned.age_s === null ? "none yet" : ago(learned.age_s)}</Fact>
        <Fact name="Changes noticed">{learned.changes}</Fact>
        {learned.dropped > 0 && <Fact name="Values that were not usable">{learned.dropped.toLocaleString()}</Fact>}
        <Fact name="Last forgotten">
          {learned.forgotten === null || learned.forgotten_utc_s === null ? "never" : `${moment(learned.forgotten_utc_s)}: ${FORGOTTEN[learned.forgotten] ?? learned.forgotten}`}
        </Fact>
        <Fact name="Members">{members || "none now"}</Fact>
        <Fact name="Measured by">{METRICS[settings.objective.metric]}</Fact>
        <Fact name="Utility below the goal">{UTILITIES[settings.objective.utility]}</Fact>
      </dl>
    </>
  );
}

function Needed({ demand }: Pick<Tenant, "demand">) {
  return (
    <>
      {demand.share !== null
        ? percent(demand.share)
        : demand.best === null
          ? "not known"
          : `${outOfReach(demand) ? "out of reach" : "not sure that any is enough"}: ${percent(demand.best, 1)} is expected with the whole box`}
      {demand.low !== null && (
        <span class="quiet">
          , {demand.high !== null ? `between ${percent(demand.low)} and ${percent(demand.high)}` : `at least ${percent(demand.low)}`}
        </span>
      )}
    </>
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
        <h3>Share against the entitlement</h3>
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
            { label: "Entitlement", values: rows.map((r) => r.entitlement), colour: "--golden", dashed: true, stepped: true },
            { label: "Floor", values: rows.map((r) => r.floor), colour: "--frozen", dashed: true },
          ]}
        />
      </div>
    </div>
  );
}
