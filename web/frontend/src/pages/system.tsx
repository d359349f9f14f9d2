/** The machine and the appliance on it: what it can promise, what runs, what was lost, and what it says. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { SystemAnswer } from "../answers";
import { JOURNAL_KINDS } from "../answers";
import type { Camera, Me } from "../api";
import { bytes, duration, moment, percent } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import type { Tone } from "../parts/badge";
import { ClipList } from "../parts/clips";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { go, href, useRoute } from "../router";
import { may, seesAll, whyNot } from "../session";
import "../styles/system.css";
import type { PageProps } from "./page";
import { Alarms } from "./system_alarms";
import { Doctor } from "./system_doctor";
import { Journal } from "./system_journal";
import { Log } from "./system_log";

const EVERY_S = 4;

const TABS = [
  { id: "overview", title: "Overview" },
  { id: "alarms", title: "Alarms" },
  { id: "clips", title: "Clips" },
  { id: "journal", title: "Journal" },
  { id: "log", title: "Log" },
  { id: "doctor", title: "Doctor" },
];

export function SystemPage({ known, me, now_s }: PageProps) {
  const route = useRoute();
  const chosen = TABS.find((t) => t.id === route.rest[0])?.id ?? "overview";
  const cameras = known.overview?.cameras ?? [];
  return (
    <>
      <div class="page-head">
        <h1>System</h1>
      </div>
      <Tabs label="System" tabs={TABS} chosen={chosen} onChoose={(id) => go(id === "overview" ? href("system") : href("system", id), true)}>
        {chosen === "overview" && <Overview me={me} cameras={cameras} now_s={now_s} />}
        {chosen === "alarms" && <Alarms me={me} cameras={cameras} active={known.alarms} now_s={now_s} />}
        {chosen === "clips" && <ClipList me={me} cameras={cameras} now_s={now_s} when={known.events.find((e) => JOURNAL_KINDS.clip.has(e.kind))?.id} />}
        {chosen === "journal" && <Journal cameras={cameras} />}
        {chosen === "log" && (may(me, "operator") && seesAll(me) ? <Log /> : <p class="card quiet">{whyNot("operator")} The log may name any camera.</p>)}
        {chosen === "doctor" && <Doctor />}
      </Tabs>
    </>
  );
}

function Overview({ me, cameras, now_s }: { me: Me; cameras: Camera[]; now_s: number }) {
  const { value, error, again } = useAsked<SystemAnswer>("/system", null, EVERY_S);
  if (value === null) return error === null ? <Loading what="Asking the appliance" /> : <ErrorBox what="The system could not be asked" error={error} onRetry={again} />;
  const named = (id: string): string => cameras.find((c) => c.id === id)?.name ?? id;
  return (
    <div class="system-cards">
      <div class="system-column">
        <HealthCard system={value} now_s={now_s} named={named} />
        <LossesCard system={value} named={named} />
      </div>
      <SharesCard system={value} />
      <DiskCard system={value} />
      <WorkersCard system={value} named={named} />
      <UpkeepCard system={value} me={me} />
    </div>
  );
}

function Card({ title, badge, children, id, wide = false }: { title: string; badge?: ComponentChildren; children: ComponentChildren; id: string; wide?: boolean }) {
  return (
    <section class={wide ? "card wide" : "card"} aria-labelledby={`system-${id}`}>
      <div class="card-head">
        <h2 id={`system-${id}`}>{title}</h2>
        {badge}
      </div>
      {children}
    </section>
  );
}

function HealthCard({ system, now_s, named }: { system: SystemAnswer; now_s: number; named: (id: string) => string }) {
  const { health } = system;
  const [words, tone]: [string, Tone] = !health.ready ? ["Not ready", "bad"] : health.reasons.length > 0 ? ["Ready, with problems", "wait"] : ["Ready", "good"];
  return (
    <Card id="health" title="Health" badge={<Badge tone={tone}>{words}</Badge>}>
      {health.reasons.length === 0 ? (
        <p>Everything that was asked of this appliance is being done.</p>
      ) : (
        <ul class="reasons">
          {health.reasons.map((r) => (
            <li key={`${r.code} ${r.camera ?? ""} ${r.message}`}>
              {r.camera ? <b>{named(r.camera)}: </b> : null}
              {r.message}
            </li>
          ))}
        </ul>
      )}
      <dl class="pairs">
        <div>
          <dt>Runs for</dt>
          <dd>{duration(Math.max(0, now_s - system.started_utc_s))}</dd>
        </div>
        <div>
          <dt>Started</dt>
          <dd>{moment(system.started_utc_s)}</dd>
        </div>
        <div>
          <dt>Version</dt>
          <dd>{system.versions["magpie"]}</dd>
        </div>
      </dl>
      <details class="more">
        <summary>What runs here</summary>
        <dl class="pairs">
          {Object.entries(system.versions).map(([name, version]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd class="break">{version || "–"}</dd>
            </div>
          ))}
        </dl>
      </details>
    </Card>
  );
}

const KEPT: Record<string, string> = {
  control: "Control process",
  golden: "Labelling (golden model)",
  evaluation: "Measuring windows",
  front: "Front of served models",
};
const ENFORCED: Record<string, [string, Tone]> = {
  reserve: ["Reserved", "good"],
  cap: ["Kept by the system", "good"],
  coop: ["Kept by the workers themselves", "wait"],
};

function SharesCard({ system }: { system: SystemAnswer }) {
  const { shares } = system;
  const [words, tone] = ENFORCED[shares.enforced] ?? [shares.enforced, "info" as Tone];
  return (
    <Card id="devices" title="Devices and shares" badge={<Badge tone={tone}>{words}</Badge>}>
      <ul class="devices">
        {system.devices.map((d) => (
          <li key={d.id}>
            <b>{d.name}</b>{" "}
            <span class="quiet">
              {d.kind === "cpu" ? "" : `${d.kind === "mig" ? "MIG part" : "GPU"}, `}
              {d.units !== null && `${d.units} ${d.kind === "cpu" ? "cores" : "SMs"}, `}
              {bytes(d.memory_bytes)} memory
            </span>{" "}
            {d.in_use ? <Badge tone="info">in use</Badge> : <span class="quiet">not used</span>}
          </li>
        ))}
      </ul>
      <h3>
        Share kind <code>{shares.kind}</code>
      </h3>
      <p>{shares.promise}</p>
      <ul class="plain-list quiet">
        {shares.limits.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      {shares.evidence && (
        <p class="evidence">
          <span class="quiet">Measured on this machine:</span> {shares.evidence}
        </p>
      )}
      <h3>Kept for Magpie's own work</h3>
      <dl class="pairs">
        {Object.entries(shares.kept)
          .filter(([, share]) => share > 0)
          .map(([name, share]) => (
            <div key={name}>
              <dt>{KEPT[name] ?? name}</dt>
              <dd>{percent(share)}</dd>
            </div>
          ))}
      </dl>
      {system.notes.length > 0 && (
        <ul class="plain-list quiet notes">
          {system.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function DiskCard({ system }: { system: SystemAnswer }) {
  const { disk } = system;
  const used = disk.total_bytes - disk.free_bytes;
  const free = disk.total_bytes > 0 ? disk.free_bytes / disk.total_bytes : 0;
  const [words, tone]: [string, Tone] = disk.low ? ["Full: nothing is recorded", "bad"] : free < 0.1 ? ["Nearly full", "wait"] : ["Enough room", "good"];
  const ours = disk.sizes;
  const keep = disk.retention;
  return (
    <Card id="disk" title="Disk" badge={<Badge tone={tone}>{words}</Badge>}>
      <p>
        <strong>{bytes(disk.free_bytes)}</strong> free of {bytes(disk.total_bytes)} <span class="quiet break">({disk.folder})</span>
      </p>
      <meter class="disk" min={0} max={disk.total_bytes} value={used} aria-label={`Disk: ${percent(1 - free)} used`} />
      {ours === null ? (
        <p class="quiet">The space that Magpie uses is not known now: the database does not answer.</p>
      ) : (
        <dl class="pairs">
          <div>
            <dt>Pictures of windows</dt>
            <dd>{bytes(ours.pictures)}</dd>
          </div>
          <div>
            <dt>Models</dt>
            <dd>{bytes(ours.models)}</dd>
          </div>
          <div>
            <dt>Database</dt>
            <dd>{bytes(ours.database)}</dd>
          </div>
        </dl>
      )}
      <h3>How long it is kept</h3>
      <ul class="plain-list quiet">
        <li>
          {keep.days} days at most; pictures and models together up to {keep.max_gb} GB
        </li>
        <li>
          journal up to {keep.max_events.toLocaleString()} entries or {keep.max_events_mb} MB
        </li>
        <li>
          samples of the last {disk.recording.keep_windows} windows, up to {disk.recording.max_mb} MB a camera
        </li>
      </ul>
      {(disk.retained.bytes_over ?? 0) > 0 && (
        <p class="problem">{bytes(disk.retained.bytes_over ?? 0)} are above the limit and may not be deleted: models in force and pinned ones stay.</p>
      )}
    </Card>
  );
}

function LossesCard({ system, named }: { system: SystemAnswer; named: (id: string) => string }) {
  const [all, setAll] = useState(false);
  const some = system.losses.filter((l) => l.count > 0);
  const shown = all ? system.losses : some;
  return (
    <Card
      id="losses"
      title="Losses"
      badge={some.length === 0 ? <Badge tone="good">Nothing was lost</Badge> : <Badge tone="info">{some.length} counted</Badge>}
    >
      <p class="quiet">Everything that was lost or passed over, counted since the appliance started ({moment(system.started_utc_s)}) or since the camera's worker did.</p>
      {shown.length > 0 && (
        <ul class="losses-list">
          {shown.map((l) => (
            <li key={`${l.code} ${l.camera} ${l.subject}`} class={l.count > 0 ? "" : "quiet"}>
              <b class="count">{l.count.toLocaleString()}</b>
              <span>
                {l.camera !== null && <b>{named(l.camera)}: </b>}
                {l.subject && <b>{l.subject}: </b>}
                {l.words}
                {l.since === "worker" && <span class="quiet"> (since its worker started)</span>}
              </span>
            </li>
          ))}
        </ul>
      )}
      <button type="button" class="link" aria-expanded={all} onClick={() => setAll(!all)}>
        {all ? "Only what was lost" : `All ${system.losses.length} counters`}
      </button>
    </Card>
  );
}

const ROLES: Record<string, string> = {
  inference: "answers",
  retraining: "retrains",
  golden: "labels",
  profiling: "measures",
};
const STATES: Record<string, Tone> = { running: "good", starting: "wait", waiting: "wait", stopping: "off", stopped: "off" };

function WorkersCard({ system, named }: { system: SystemAnswer; named: (id: string) => string }) {
  const share = (value: number | null): string => percent(value, 1);
  return (
    <Card id="workers" title="Workers" wide badge={<span class="quiet">{system.workers.length} processes beside the control process</span>}>
      <Table
        caption="Worker processes: state, shares of the device in this window, memory"
        rows={system.workers}
        rowKey={(w) => w.name}
        empty="No worker runs: no camera is on."
        columns={[
          {
            key: "name",
            title: "Worker",
            cell: (w) => (
              <>
                <code>{w.name}</code>
                {w.camera !== null && named(w.camera) !== w.camera && <span class="quiet under">{named(w.camera)}</span>}
              </>
            ),
          },
          { key: "role", title: "Does", cell: (w) => ROLES[w.role] ?? w.role },
          {
            key: "state",
            title: "State",
            cell: (w) => (
              <>
                <Badge tone={STATES[w.state] ?? "info"}>{w.state}</Badge>
                {w.last_error && <span class="under problem">{w.last_error}</span>}
              </>
            ),
          },
          { key: "asked", title: "Asked", number: true, cell: (w) => share(w.asked ?? w.share) },
          { key: "granted", title: "Given", number: true, cell: (w) => share(w.granted) },
          { key: "used", title: "Used", number: true, cell: (w) => share(w.used) },
          { key: "memory", title: "Memory", number: true, cell: (w) => (w.memory_bytes === null ? "–" : bytes(w.memory_bytes)) },
          {
            key: "restarts",
            title: "Restarts",
            number: true,
            cell: (w) => (
              <span title={`${w.restarts} after it was lost, ${w.respawns} to change its share`}>
                {w.restarts}
                {w.respawns > 0 && <span class="quiet"> +{w.respawns}</span>}
              </span>
            ),
          },
        ]}
      />
      <p class="quiet table-note">
        Shares are of the device, over this window so far. Restarts: after the worker was lost; with + those made to change its share.
      </p>
    </Card>
  );
}

function UpkeepCard({ system, me }: { system: SystemAnswer; me: Me }) {
  const metrics = `${location.origin}/metrics`;
  return (
    <Card id="upkeep" title="Metrics and back-up" wide>
      <dl class="upkeep">
        <div>
          <dt>Metrics for Prometheus</dt>
          <dd>
            <a href="/metrics" target="_blank" rel="noreferrer">
              {metrics}
            </a>
            {me.kind !== "open" && <span class="quiet"> – scrape it with an API token of role viewer (Settings, API tokens).</span>}
          </dd>
        </div>
        <div>
          <dt>Health for load balancers</dt>
          <dd>
            <code>/livez</code>, <code>/readyz</code> <span class="quiet">(open without login)</span>
          </dd>
        </div>
        <div>
          <dt>Back up</dt>
          <dd>
            <code class="command">magpie backup magpie-{new Date(1000 * system.utc_s).toISOString().slice(0, 10)}.tar --data-dir {system.disk.folder}</code>
            <span class="quiet">While the appliance runs. Settings, history and models; with <code>--pictures</code> the windows' pictures, too.</span>
          </dd>
        </div>
        <div>
          <dt>Restore</dt>
          <dd>
            <code class="command">magpie restore FILE --data-dir FOLDER</code>
            <span class="quiet">While it is stopped.</span>
          </dd>
        </div>
      </dl>
    </Card>
  );
}
