/** Alarms, objects and journals of all boxes, with the filters of one box; and the audit of all boxes. */

import { useState } from "preact/hooks";

import type {
  FleetAlarmAnswer,
  FleetAlarmsAnswer,
  FleetAnswer,
  FleetAuditAnswer,
  FleetChangeAnswer,
  FleetEventAnswer,
  FleetEventsAnswer,
  FleetObjectAnswer,
  FleetObjectsAnswer,
} from "../answers";
import { duration, moment } from "../format";
import { AskedBoxes } from "../parts/asked_boxes";
import { Badge } from "../parts/badge";
import type { FleetList, RowOf } from "../parts/fleet_pages";
import { useFleetPaged } from "../parts/fleet_pages";
import { Older } from "../parts/older";
import { SEVERITIES } from "../parts/severity";
import { Empty, ErrorBox, Loading } from "../parts/states";
import type { Column } from "../parts/table";
import { Table } from "../parts/table";
import { entryText } from "../words";

type What = "alarms" | "objects" | "events";
const WHAT: Record<What, string> = { alarms: "Alarms", objects: "Objects", events: "Journal" };
const PAGE = 50;
const KIND = /^[a-z0-9_.-]{1,100}$/;

function time(utc_s: number) {
  return <time dateTime={new Date(1000 * utc_s).toISOString()}>{moment(utc_s)}</time>;
}

const ALARMS: Column<FleetAlarmAnswer>[] = [
  { key: "when", title: "Began", cell: (r) => time(r.alarm.began_utc_s) },
  {
    key: "box",
    title: "Box",
    cell: (r) => (
      <div>
        {r.box}
        {r.also_on.length > 0 && <span class="quiet under">also on {r.also_on.join(", ")}</span>}
      </div>
    ),
  },
  { key: "camera", title: "Camera", cell: (r) => r.alarm.camera ?? <span class="quiet">–</span> },
  {
    key: "what",
    title: "Alarm",
    cell: (r) => (
      <div>
        <Badge tone={r.alarm.ended_utc_s === null ? SEVERITIES[r.alarm.severity][1] : "off"}>{SEVERITIES[r.alarm.severity][0]}</Badge> {r.alarm.message}
        <span class="quiet under">
          rule {r.alarm.rule}
          {r.alarm.ended_utc_s === null ? "; goes on" : `; over after ${duration(Math.max(0, r.alarm.ended_utc_s - r.alarm.began_utc_s))}`}
          {r.alarm.acknowledged_by !== null && `; acknowledged by ${r.alarm.acknowledged_by}`}
        </span>
      </div>
    ),
  },
];

const OBJECTS: Column<FleetObjectAnswer>[] = [
  { key: "when", title: "Came", cell: (r) => time(r.found.began_utc_s) },
  { key: "box", title: "Box", cell: (r) => r.box },
  { key: "camera", title: "Camera", cell: (r) => r.found.camera },
  { key: "class", title: "Object", cell: (r) => r.found.class },
  { key: "stay", title: "Stay", cell: (r) => (r.found.ended_utc_s === null ? "there now" : duration(Math.max(0, r.found.ended_utc_s - r.found.began_utc_s))) },
  { key: "zones", title: "Zones", cell: (r) => (r.found.zones.length === 0 ? <span class="quiet">–</span> : r.found.zones.join(", ")) },
];

const EVENTS: Column<FleetEventAnswer>[] = [
  { key: "when", title: "When", cell: (r) => (r.entry.utc_s === null ? "" : time(r.entry.utc_s)) },
  { key: "box", title: "Box", cell: (r) => r.box },
  { key: "camera", title: "Camera", cell: (r) => r.entry.camera ?? <span class="quiet">–</span> },
  { key: "what", title: "What", cell: (r) => entryText(r.entry, (id) => id).text },
];

const CHANGES: Column<FleetChangeAnswer>[] = [
  { key: "when", title: "When", cell: (r) => time(r.change.utc_s) },
  { key: "box", title: "Box", cell: (r) => r.box },
  {
    key: "by",
    title: "Who",
    cell: (r) => (
      <div>
        {r.change.by}
        {r.change.from && <span class="quiet under">{r.change.from}</span>}
      </div>
    ),
  },
  { key: "subject", title: "What", cell: (r) => <span class="break">{r.change.subject}</span> },
  { key: "action", title: "Change", cell: (r) => r.change.action },
];

/** The filter as chosen and typed. */
interface Filter {
  what: What;
  camera: string;
  /** Only what goes on. */
  active: boolean;
  /** The rule, class or kind. */
  typed: string;
}

export function FleetSearch({ fleet }: { fleet: FleetAnswer }) {
  const [filter, setFilter] = useState<Filter>({ what: "alarms", camera: "", active: false, typed: "" });
  const put = (part: Partial<Filter>): void => setFilter((before) => ({ ...before, ...part }));
  const { what, camera, active, typed } = filter;
  const wanted = typed.trim();
  const good = what !== "events" || wanted === "" || KIND.test(wanted);
  const query = new URLSearchParams({ limit: String(PAGE) });
  if (camera !== "") query.set("camera", camera);
  if (active && what !== "events") query.set("active", "true");
  if (wanted !== "" && good) query.set({ alarms: "rule", objects: "class", events: "kind" }[what], wanted);
  const path = `/fleet/${what}?${query.toString()}`;
  return (
    <section class="card" aria-labelledby="fleet-search-title">
      <div class="card-head">
        <h2 id="fleet-search-title">{WHAT[what]} of all boxes</h2>
        <Filters filter={filter} put={put} good={good} cameras={fleet.cameras} />
      </div>
      {what === "alarms" && <Rows<FleetAlarmsAnswer> key="alarms" path={path} caption="Alarms of all boxes" columns={ALARMS} of={(r) => r.alarm.id} />}
      {what === "objects" && <Rows<FleetObjectsAnswer> key="objects" path={path} caption="Objects of all boxes" columns={OBJECTS} of={(r) => r.found.id} />}
      {what === "events" && <Rows<FleetEventsAnswer> key="events" path={path} caption="Journals of all boxes" columns={EVENTS} of={(r) => r.entry.id ?? 0} />}
    </section>
  );
}

interface FiltersProps extends Pick<FleetAnswer, "cameras"> {
  filter: Filter;
  put: (part: Partial<Filter>) => void;
  /** The appliance can be asked for the typed name. */
  good: boolean;
}

function Filters({ filter: { what, camera, active, typed }, put, good, cameras }: FiltersProps) {
  return (
    <div class="filters">
      <label>
        Look for{" "}
        <select value={what} onChange={(e) => put({ what: e.currentTarget.value as What, typed: "" })}>
          {(Object.keys(WHAT) as What[]).map((one) => (
            <option key={one} value={one}>
              {WHAT[one].toLowerCase()}
            </option>
          ))}
        </select>
      </label>
      <label>
        Camera{" "}
        <select value={camera} onChange={(e) => put({ camera: e.currentTarget.value })}>
          <option value="">all</option>
          {cameras.map((c) => (
            <option key={c.camera} value={c.camera}>
              {c.camera}
            </option>
          ))}
        </select>
      </label>
      <label>
        {{ alarms: "Rule", objects: "Class", events: "Kind" }[what]}{" "}
        <input type="text" placeholder="all" value={typed} autocapitalize="none" spellcheck={false} aria-invalid={!good} onInput={(e) => put({ typed: e.currentTarget.value })} />
      </label>
      {what !== "events" && (
        <label class="check">
          <input type="checkbox" checked={active} onChange={(e) => put({ active: e.currentTarget.checked })} />
          Going on
        </label>
      )}
    </div>
  );
}

export function FleetAudit() {
  return (
    <section class="card" aria-labelledby="fleet-audit-title">
      <h2 id="fleet-audit-title">Audit log of all boxes</h2>
      <p class="quiet lead">Every change of settings, models and rights on any box. The values are in the audit log of the box.</p>
      <Rows<FleetAuditAnswer> path={`/fleet/audit?limit=${PAGE}`} caption="Changes on all boxes" columns={CHANGES} of={(r) => r.change.id} />
    </section>
  );
}

interface RowsProps<P extends FleetList> {
  path: string;
  caption: string;
  columns: Column<RowOf<P>>[];
  of: (row: RowOf<P>) => number | string;
}

function Rows<P extends FleetList>({ path, caption, columns, of }: RowsProps<P>) {
  const found = useFleetPaged<P>(path);
  return (
    <>
      <AskedBoxes boxes={found.boxes} />
      {found.error !== null && <ErrorBox what="The boxes could not be asked" error={found.error} onRetry={found.again} />}
      {found.rows === null && found.error === null && <Loading what="Asking the boxes" />}
      {found.rows?.length === 0 && <Empty title="Nothing found">Other filters may find some.</Empty>}
      {found.rows !== null && found.rows.length > 0 && <Table caption={caption} rows={found.rows} rowKey={(r) => `${r.box} ${of(r)}`} columns={columns} />}
      <div class="actions">
        <button type="button" onClick={found.again}>
          Refresh
        </button>
      </div>
      <Older of={found} words="Older" />
    </>
  );
}
