/** The jobs of the fleet: what runs where, what waits and why, and the tenants' fair shares. */

import type { FleetJobAnswer, FleetJobsAnswer, FleetResourceAnswer, FleetTenantAnswer } from "../answers";
import { counted, moment } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";

const EVERY_S = 3;
const PHASES = { waiting: "Waits", running: "Runs", stopping: "Is stopped", ended: "Ended", withdrawn: "Withdrawn", refused: "Refused" };
const TONES = { waiting: "wait", running: "good", stopping: "wait", ended: "good", withdrawn: "wait", refused: "bad" } as const;
const ENGINES = { local: "on the head's own box", ray: "on all boxes, by Ray", kubernetes: "on Kubernetes" };
const UP = { off: "closed: no job is open", starting: "is being opened", up: "runs", failed: "failed and is tried again" };
const MOST_FAILURES = 3;
/** A longer list of resources is folded. */
const OPEN_UP_TO = 12;

function What({ job }: { job: FleetJobAnswer }) {
  const failed = job.task_states.filter((t) => t.failures > 0).slice(0, MOST_FAILURES);
  return (
    <>
      {job.why !== null && <span>{job.why.words}</span>}
      {failed.map((t) => (
        <span key={t.task} class="under">
          Task {t.task} failed {counted(t.failures, "time")} and is tried again: {t.why}
        </span>
      ))}
      {job.over_utc_s !== null && <span class="quiet under">{moment(job.over_utc_s)}</span>}
      {job.withdrawn_by !== "" && <span class="quiet under">Withdrawn by {job.withdrawn_by}</span>}
    </>
  );
}

function boxesOf(job: FleetJobAnswer): string {
  const boxes = job.task_states.filter((t) => t.box !== null && (!t.done || job.over_utc_s !== null)).map((t) => t.box as string);
  return [...new Set(boxes)].sort().join(", ");
}

function Jobs({ answer }: { answer: FleetJobsAnswer }) {
  if (answer.jobs.length === 0) return <Empty title="No jobs">magpie fleet submit SITE JOB.json gives the fleet one.</Empty>;
  return (
    <Table
      caption="The jobs of the fleet"
      rows={[...answer.jobs].reverse()}
      rowKey={(j: FleetJobAnswer) => j.id}
      columns={[
        {
          key: "id",
          title: "Job",
          cell: (j) => (
            <>
              {j.id}
              <span class="quiet under">
                {j.program}, by {j.by}
                {j.tenant !== null && `, tenant ${j.tenant}`}
                {j.queue !== null && `, queue ${j.queue}`}
              </span>
            </>
          ),
        },
        { key: "phase", title: "State", cell: (j) => <Badge tone={TONES[j.phase]}>{PHASES[j.phase]}</Badge> },
        { key: "tasks", title: "Tasks", cell: (j) => `${j.done} of ${j.tasks} done${j.running > 0 ? `, ${j.running} run` : ""}` },
        { key: "boxes", title: "Boxes", cell: (j) => boxesOf(j) || <span class="quiet">–</span> },
        { key: "why", title: "Why", cell: (j) => <What job={j} /> },
      ]}
    />
  );
}

function Tenants({ tenants }: { tenants: readonly FleetTenantAnswer[] }) {
  if (tenants.length === 0) return null;
  return (
    <Table
      caption="Fair shares of the tenants of jobs"
      rows={[...tenants]}
      rowKey={(t: FleetTenantAnswer) => t.tenant}
      columns={[
        { key: "tenant", title: "Tenant", cell: (t) => t.tenant },
        { key: "wanted", title: "Wants", cell: (t) => `${t.wanted} ${t.resource}` },
        { key: "share", title: "Fair share", cell: (t) => t.share.toFixed(2) },
        { key: "used", title: "Has", cell: (t) => t.used },
      ]}
    />
  );
}

function Resources({ resources }: { resources: readonly FleetResourceAnswer[] }) {
  if (resources.length === 0) return null;
  return (
    <details open={resources.length <= OPEN_UP_TO}>
      <summary>{counted(resources.length, "resource")} that jobs may ask for</summary>
      <Table
        caption="Resources of the boxes"
        rows={[...resources]}
        rowKey={(r: FleetResourceAnswer) => `${r.box} ${r.name}`}
        columns={[
          { key: "box", title: "Box", cell: (r) => (r.box === "" ? "all boxes together" : r.box) },
          { key: "name", title: "Resource", cell: (r) => r.name },
          { key: "used", title: "Held by tasks", cell: (r) => `${r.used} of ${r.capacity}` },
        ]}
      />
    </details>
  );
}

export function FleetJobs() {
  const asked = useAsked<FleetJobsAnswer>("/fleet/jobs", null, EVERY_S);
  const answer = asked.value;
  return (
    <section class="card" aria-labelledby="jobs-title">
      <h2 id="jobs-title">Jobs</h2>
      {answer === null && asked.error === null && <Loading what="Loading the jobs" />}
      {answer === null && asked.error !== null && <ErrorBox what="The jobs could not be loaded" error={asked.error} onRetry={asked.again} />}
      {answer !== null && (
        <>
          <p class="quiet">
            {answer.head} keeps the jobs. They run {ENGINES[answer.engine.kind]}; the engine {UP[answer.engine.phase]}
            {answer.engine.why !== "" && `: ${answer.engine.why}`}.
          </p>
          {answer.damaged && <p role="status">The jobs that {answer.head} kept before could not be read, and were put aside.</p>}
          {answer.elsewhere.map((e) => (
            <p key={e.box} role="status">
              {e.box} keeps {counted(e.open, "open job")} since it was the head. Nothing of that runs until it is the head again.
            </p>
          ))}
          <Jobs answer={answer} />
          <Tenants tenants={answer.tenants} />
          <Resources resources={answer.resources} />
        </>
      )}
    </section>
  );
}
