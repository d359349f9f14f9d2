/** Tenants: who has which share of the box, what comes of it against the goal, and why. */

import { useEffect, useState } from "preact/hooks";

import type { Me } from "../api";
import { ago, duration, left, percent } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import type { Actions } from "../parts/tenant_row";
import { RowActions, ShareBar, State } from "../parts/tenant_row";
import type { SharingAnswer, Tenant, TenantHistory, TenantHistoryRow, TenantsAnswer } from "../parts/tenants";
import { part, reasonWords, SHARING_POLICIES, sourceWords, tenantName } from "../parts/tenants";
import { href, useRoute } from "../router";
import { may, seesAll, whyNot } from "../session";
import type { PageProps } from "./page";
import { TenantDetailCards } from "./tenants_detail";
import { RemoveTenant, SharingCard, TenantDialog } from "./tenants_settings";
import { SharingWhatIfCard } from "./tenants_what_if";
import "../styles/tenants.css";

const EVERY_S = 3;
const HISTORY_EVERY_S = 60;

export function TenantsPage(props: PageProps) {
  const { me, known, now_s } = props;
  const chosen = useRoute().rest[0];
  const asked = useAsked<TenantsAnswer>("/tenants", null, EVERY_S);
  const sharing = useAsked<SharingAnswer>("/sharing", null, EVERY_S);
  const history = useAsked<TenantHistory>("/tenants/history", null, HISTORY_EVERY_S);
  const [form, setForm] = useState<Tenant | "new" | null>(null);
  const [removing, setRemoving] = useState<Tenant | null>(null);
  const [changed, setChanged] = useState<SharingAnswer | null>(null);
  // The answer to a change is shown until the next answer comes.
  useEffect(() => setChanged(null), [sharing.value]);
  const allowed = may(me, "operator") && seesAll(me);
  const again = (): void => {
    asked.again();
    sharing.again();
  };
  const head = (
    <div class="page-head">
      <h1>Tenants</h1>
      <p class="quiet">Groups of served models or of cameras that share the box: each has a goal and an entitlement.</p>
    </div>
  );
  if (asked.value === null || sharing.value === null) {
    const error = asked.error ?? sharing.error;
    return (
      <>
        {head}
        {error === null ? <Loading what="Loading the tenants" /> : <ErrorBox what="The tenants could not be loaded" error={error} onRetry={again} />}
      </>
    );
  }
  const { tenants, active } = asked.value;
  const shown = changed ?? sharing.value;
  const rows = history.value?.rows ?? [];
  const actions = allowed ? { onChange: setForm, onRemove: setRemoving } : null;
  return (
    <>
      {head}
      {chosen !== undefined ? (
        <ChosenTenant id={chosen} tenants={tenants} rows={rows} now_s={now_s} capacity={asked.value.capacity} actions={actions} />
      ) : (
        <>
          {!active && <Alone tenants={tenants} onAdd={allowed ? () => setForm("new") : null} />}
          {active && <Summary answer={asked.value} sharing={shown} now_s={now_s} />}
          {tenants.length > 0 && <Shares answer={asked.value} rows={rows} me={me} actions={actions} onAdd={() => setForm("new")} />}
          {active && <SharingWhatIfCard tenants={tenants} policy={shown.settings.policy} me={me} />}
          <SharingCard sharing={shown} me={me} onChanged={setChanged} />
        </>
      )}
      {form !== null && <TenantDialog tenant={form === "new" ? null : form} known={known} onDone={again} onClose={() => setForm(null)} />}
      {removing !== null && <RemoveTenant tenant={removing} tenants={tenants} onDone={again} onClose={() => setRemoving(null)} />}
    </>
  );
}

interface ChosenProps {
  /** As the address has it. */
  id: string;
  tenants: Tenant[];
  rows: TenantHistoryRow[];
  now_s: number;
  capacity: number;
  actions: Actions | null;
}

function ChosenTenant({ id, tenants, rows, now_s, capacity, actions }: ChosenProps) {
  const tenant = tenants.find((t) => t.id === id);
  return (
    <>
      <p>
        <a href={href("tenants")}>All tenants</a>
      </p>
      {tenant === undefined ? (
        <Empty title="There is no such tenant" level={2}>
          It was removed, or one of its cameras is not yours to see.
        </Empty>
      ) : (
        <TenantDetailCards key={tenant.id} tenant={tenant} tenants={tenants} rows={rows.filter((r) => r.tenant === tenant.id)} now_s={now_s} capacity={capacity} actions={actions} />
      )}
    </>
  );
}

function Alone({ tenants, onAdd }: { tenants: Tenant[]; onAdd: (() => void) | null }) {
  const one = tenants[0];
  return (
    <section class="card alone-card" aria-labelledby="alone-title">
      <h2 id="alone-title">One tenant has the whole box</h2>
      <p>
        {one === undefined ? "There is no tenant yet" : `${tenantName(tenants, one.id)} is alone`}: nothing is shared, and everything is planned as
        without tenants. With two, the share of each is learned from what comes of it: it moves to where a goal would be missed, from where it is
        spare.
      </p>
      <p>
        A tenant is a named group of served models and applications, or of cameras, with one goal (requests in time, or accuracy) and an entitlement.
        What no tenant names belongs to a tenant of its own.
      </p>
      {onAdd !== null && (
        <p>
          <button type="button" class="primary" onClick={onAdd}>
            Add a tenant
          </button>
        </p>
      )}
      <p class="quiet">
        {onAdd === null && "An operator who may see every camera can add one here. "}A site's configuration file can name tenants, too:
      </p>
      <pre tabIndex={0} role="region" aria-label="Section of the site's configuration">
        <code>{`tenants:
  - {id: gate, entitlement: 2, models: [plates], objective: {goal: 0.98}}
  - {id: yard, cameras: [yard-1, yard-2], objective: {metric: accuracy, goal: 0.7}}
`}</code>
      </pre>
    </section>
  );
}

function Summary({ answer, sharing, now_s }: { answer: TenantsAnswer; sharing: SharingAnswer; now_s: number }) {
  const { settings, dwell_s, restarts, decided_utc_s, next_utc_s, lacking, social_welfare, egalitarian_welfare } = sharing;
  return (
    <section class="card tenants-summary" aria-label="In short">
      <dl>
        <div>
          <dt>Goals met</dt>
          <dd>
            {answer.tenants.filter((t) => t.state === "meets").length} of {answer.tenants.length}
          </dd>
        </div>
        <div>
          <dt>Shared by all tenants</dt>
          <dd>{percent(answer.capacity)} of the device</dd>
        </div>
        {social_welfare !== null && (
          <div>
            <dt>Mean utility, least</dt>
            <dd>
              {percent(social_welfare, 1)}, {percent(egalitarian_welfare, 1)}
            </dd>
          </div>
        )}
        <div>
          <dt>Decided</dt>
          <dd>
            {decided_utc_s === null ? "not yet" : ago(now_s - decided_utc_s)}
            {next_utc_s !== null && <span class="quiet">, again in {left(next_utc_s - now_s)}</span>}
          </dd>
        </div>
        <div>
          <dt>Policy</dt>
          <dd>{SHARING_POLICIES[settings.policy] ?? settings.policy}</dd>
        </div>
        {lacking > 0.0005 && (
          <div>
            <dt>Floors</dt>
            <dd>
              <Badge tone="bad">{part(lacking)} more than there is</Badge> <span class="quiet">each tenant has its part of its own</span>
            </dd>
          </div>
        )}
        {restarts && (
          <div>
            <dt>Rest after a move</dt>
            <dd>
              {duration(dwell_s)} <span class="quiet">(shares of this device change by a new start)</span>
            </dd>
          </div>
        )}
      </dl>
    </section>
  );
}

interface SharesProps {
  answer: TenantsAnswer;
  rows: TenantHistoryRow[];
  me: Me;
  /** Null: `me` may not change tenants. */
  actions: Actions | null;
  onAdd: () => void;
}

function Shares({ answer, rows, me, actions, onAdd }: SharesProps) {
  return (
    <section class="card" aria-labelledby="tenants-title">
      <div class="card-head">
        <h2 id="tenants-title">{answer.active ? "Shares" : "Known tenants"}</h2>
        {actions !== null && answer.active && (
          <button type="button" class="primary" onClick={onAdd}>
            Add a tenant
          </button>
        )}
      </div>
      <SharesTable answer={answer} rows={rows} actions={actions} />
      {actions === null && <p class="quiet small">{seesAll(me) ? whyNot("operator") : "Tenants are changed by an operator who may see every camera."}</p>}
    </section>
  );
}

function SharesTable({ answer, rows, actions }: Pick<SharesProps, "answer" | "rows" | "actions">) {
  const { tenants } = answer;
  return (
    <Table
      caption="Tenants, their shares and what comes of them"
      rows={tenants}
      rowKey={(t) => t.id}
      columns={[
        { key: "name", title: "Tenant", cell: (t) => <Name tenant={t} tenants={tenants} /> },
        { key: "share", title: "Share held, entitlement", cell: (t) => <ShareBar tenant={t} whole={answer.capacity} /> },
        { key: "performance", title: "Reached, goal", cell: (t) => <Reached tenant={t} rows={rows} /> },
        { key: "state", title: "State", cell: (t) => <State tenant={t} /> },
        { key: "source", title: "Known from", cell: (t) => <span class="small">{sourceWords(t)}</span> },
        { key: "why", title: "Why this share", cell: (t) => <span class="small why">{reasonWords(t, tenants)}</span> },
        ...(actions === null ? [] : [{ key: "actions", title: "Actions", cell: (t: Tenant) => <RowActions tenant={t} tenants={tenants} actions={actions} /> }]),
      ]}
    />
  );
}

function Name({ tenant, tenants }: { tenant: Tenant; tenants: Tenant[] }) {
  const members = [
    ...tenant.models,
    ...tenant.applications.map((a) => `${a} (application)`),
    ...tenant.cameras,
  ];
  const shown = members.length > 4 ? `${members.slice(0, 3).join(", ")} and ${members.length - 3} more` : members.join(", ");
  return (
    <span>
      <a href={href("tenants", tenant.id)}>{tenantName(tenants, tenant.id)}</a>
      <span class="members quiet small">{shown || "no members now"}</span>
    </span>
  );
}

function Reached({ tenant, rows }: { tenant: Tenant; rows: TenantHistoryRow[] }) {
  const mine = rows.filter((r) => r.tenant === tenant.id);
  return (
    <div class="reached">
      <span>
        {percent(tenant.performance, 1)}
        <span class="quiet">, {percent(tenant.goal, 1)}</span>
      </span>
      <DayLine rows={mine} goal={tenant.goal} />
    </div>
  );
}

const WIDTH = 120;
const HEIGHT = 28;

/** Performance over the last day against the goal, small; the detail has the same with its numbers. */
function DayLine({ rows, goal }: { rows: TenantHistoryRow[]; goal: number }) {
  const values = rows.flatMap((r) => (r.performance === null ? [] : [r.performance]));
  const [first, last] = [rows[0], rows.at(-1)];
  if (first === undefined || last === undefined || values.length < 2) return null;
  const low = Math.min(goal, ...values);
  const high = Math.max(goal, ...values);
  const span = Math.max(0.01, high - low);
  const y = (v: number): number => 3 + (HEIGHT - 6) * (1 - (v - low) / span);
  const length = Math.max(1, last.utc_s - first.utc_s);
  let drawn = "";
  let drawing = false;
  for (const row of rows) {
    if (row.performance !== null) drawn += `${drawing ? "L" : "M"}${((WIDTH * (row.utc_s - first.utc_s)) / length).toFixed(1)} ${y(row.performance).toFixed(1)} `;
    drawing = row.performance !== null;
  }
  const met = values.filter((v) => v >= goal - 1e-9).length;
  const label = `Over ${duration(length)}: from ${percent(Math.min(...values), 1)} to ${percent(Math.max(...values), 1)}, goal met in ${percent(met / values.length)} of the time`;
  return (
    <svg class="day-line" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="goal" d={`M0 ${y(goal).toFixed(1)} H${WIDTH}`} />
      <path class="performance" d={drawn} />
    </svg>
  );
}
