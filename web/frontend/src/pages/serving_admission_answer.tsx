/** The planners' answer: whether it fits, why, and what it would cost the others. */

import type { Overview } from "../api";
import { percent, points } from "../format";
import { Badge } from "../parts/badge";
import type { Admission } from "../parts/served";
import { milliseconds, rate } from "../parts/served";
import { Table } from "../parts/table";
import type { Tenant } from "../parts/tenants";
import { tenantName } from "../parts/tenants";
import { href } from "../router";

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");
}

/** Where there is room for the candidate in its tenant. */
function withinWords({ tenant, within, entitlement, held, share_after, room }: NonNullable<Admission["tenants"]>, tenants: readonly Tenant[]): string {
  const name = tenantName(tenants, tenant);
  if (within === "none") return `${name} may have ${percent(room)} of the device at most, ${percent(entitlement)} by right.`;
  const shares = `its share: ${percent(held)}, with it ${percent(share_after)}`;
  return within === "entitlement"
    ? `${name} has room for it within its entitlement of ${percent(entitlement)}; ${shares}.`
    : `${name} has room for it with what others leave, beyond its entitlement of ${percent(entitlement)}; ${shares}.`;
}

interface Props {
  answer: Admission;
  overview: Overview;
  tenants: readonly Tenant[];
  onTry: (rate: number) => void;
}

export function AdmissionVerdict({ answer, overview, tenants, onTry }: Props) {
  const named = (id: string): string => overview.cameras.find((c) => c.id === id)?.name ?? id;
  return (
    <div class="admission-answer" role="status">
      <p class="verdict">
        <Badge tone={answer.admitted ? "good" : "bad"}>{answer.admitted ? "It fits" : "It does not fit"}</Badge> <strong>{answer.candidate}</strong>
        {answer.planned_rate !== null && answer.rate !== null && (
          <span class="quiet">
            {" "}
            {rate(answer.rate)} requests/s, planned as {rate(answer.planned_rate)} to hold what chance adds
          </span>
        )}
      </p>
      {answer.tenants !== null && (answer.admitted || answer.tenants.within === "none") && <p>{withinWords(answer.tenants, tenants)}</p>}
      <ul class="answer-reasons">
        {[...answer.reasons, ...answer.yields]
          .filter((reason) => reason.code !== "most_rate") // it has its own line, with a button
          .map((reason) => (
            <li key={reason.message}>{sentence(reason.message)}</li>
          ))}
      </ul>
      {!answer.admitted && answer.most_rate !== null && (
        <p>
          {answer.most_rate > 0 ? (
            <>
              At most {rate(answer.most_rate)} requests/s would fit.{" "}
              <button type="button" class="link" onClick={() => onTry(answer.most_rate ?? 0)}>
                Ask with this rate
              </button>
            </>
          ) : (
            "No rate of it would fit."
          )}
        </p>
      )}
      {answer.admitted ? (
        <Effects answer={answer} named={named} />
      ) : (
        <details>
          <summary>What the planners compared</summary>
          <Effects answer={answer} named={named} />
        </details>
      )}
      {answer.admitted && answer.kind === "camera" && (
        <p>
          <a href={href("settings", "cameras")}>Add the camera in the settings</a>
        </p>
      )}
      {answer.admitted && answer.kind === "model" && (
        <p class="quiet">To serve it: put it into the model folder and load it by the protocol, or change its rate above.</p>
      )}
    </div>
  );
}

function Effects({ answer, named }: { answer: Admission; named: (camera: string) => string }) {
  const worst = (ms: number | null, part: number, absent: string): string => {
    if (part <= 0) return absent;
    return milliseconds(ms) + (part >= 0.9995 ? "" : `, ${percent(part)} of its rate`);
  };
  return (
    <div class="effects">
      <p>
        Models would take <strong>{percent(answer.serving_share_after)}</strong> of the device (now {percent(answer.serving_share_before)}),
        cameras would plan within <strong>{percent(answer.cameras_share_after)}</strong> (now {percent(answer.cameras_share_before)}).
      </p>
      {answer.budgets.length > 0 && (
        <Table
          caption="Time that each stage would get"
          showCaption
          rows={answer.budgets}
          rowKey={(b) => b.stage}
          columns={[
            { key: "stage", title: "Stage", cell: (b) => b.stage },
            { key: "model", title: "Model", cell: (b) => b.model },
            { key: "budget", title: "Budget", number: true, cell: (b) => milliseconds(b.budget_ms) },
            { key: "even", title: "Even split", number: true, cell: (b) => milliseconds(b.even_ms) },
          ]}
        />
      )}
      {answer.models.length > 0 && (
        <Table
          caption="Worst latency of each model, without and with it"
          showCaption
          rows={answer.models}
          rowKey={(m) => m.model}
          columns={[
            { key: "model", title: "Model", cell: (m) => m.model },
            { key: "slo", title: "Objective", number: true, cell: (m) => milliseconds(m.slo_ms) },
            { key: "before", title: "Now", number: true, cell: (m) => worst(m.before_ms, m.before_part, "not served") },
            { key: "after", title: "With it", number: true, cell: (m) => worst(m.after_ms, m.after_part, "refused") },
          ]}
        />
      )}
      {answer.cameras.length > 0 && (
        <Table
          caption="Expected accuracy of each camera, without and with it"
          showCaption
          rows={answer.cameras}
          rowKey={(c) => c.camera}
          columns={[
            { key: "camera", title: "Camera", cell: (c) => named(c.camera) },
            { key: "before", title: "Now", number: true, cell: (c) => percent(c.before, 1) },
            { key: "after", title: "With it", number: true, cell: (c) => percent(c.after, 1) },
            { key: "loss", title: "Change", number: true, cell: (c) => (c.before === null ? "new" : points(-c.loss)) },
          ]}
        />
      )}
    </div>
  );
}
