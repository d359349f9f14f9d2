/** `magpie doctor`: what this machine can enforce, and why not more. */

import { useEffect, useState } from "preact/hooks";

import type { CheckAnswer, DeviceReport, Doctor as Report } from "../answers";
import { ask } from "../api";
import { bytes, clock } from "../format";
import { Badge } from "../parts/badge";
import type { Tone } from "../parts/badge";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";

const TIMEOUT_MS = 60_000;
const OUTCOMES: Record<CheckAnswer["outcome"], [string, Tone]> = { good: ["Good", "good"], warning: ["Note", "wait"], bad: ["Bad", "bad"] };

export function Doctor() {
  const [report, setReport] = useState<{ value: Report; at: number } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  const examine = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      setReport({ value: await ask<Report>("/doctor", "GET", undefined, TIMEOUT_MS), at: Date.now() / 1000 });
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };

  useEffect(() => void examine(), []);

  const value = report?.value;
  return (
    <section class="card" aria-labelledby="doctor-title">
      <div class="card-head">
        <h2 id="doctor-title">Doctor</h2>
        <div class="filters">
          {report && (
            <span class="quiet" role="status">
              {busy ? "Examining…" : `Examined at ${clock(report.at)}`}
            </span>
          )}
          <button type="button" disabled={busy} onClick={() => void examine()}>
            Examine again
          </button>
        </div>
      </div>
      {error !== null && <ErrorBox what="The machine could not be examined" error={error} onRetry={() => void examine()} />}
      {value === undefined && error === null && <Loading what="Examining the machine; this takes some seconds" />}
      {value && <Findings report={value} />}
    </section>
  );
}

function Findings({ report }: { report: Report }) {
  return (
    <>
      <p>{report.can_run ? "The appliance can run here." : "Something is missing for the appliance to run well: see what is bad."}</p>
      <Table
        caption="What was looked at"
        rows={report.checks}
        rowKey={(c) => c.name + c.said}
        columns={[
          { key: "name", title: "Looked at", cell: (c) => c.name },
          {
            key: "outcome",
            title: "Outcome",
            cell: (c) => <Badge tone={OUTCOMES[c.outcome]?.[1] ?? "info"}>{OUTCOMES[c.outcome]?.[0] ?? c.outcome}</Badge>,
          },
          {
            key: "said",
            title: "Found",
            cell: (c) => (
              <>
                <span class="break">{c.said}</span>
                {c.hint && <span class="under">→ {c.hint}</span>}
              </>
            ),
          },
        ]}
      />
      {report.devices.map((device) => (
        <TriedKinds key={device.device} device={device} />
      ))}
      {report.notes.map((note) => (
        <p key={note} class="quiet">
          {note}
        </p>
      ))}
    </>
  );
}

function TriedKinds({ device }: { device: DeviceReport }) {
  return (
    <div class="tried">
      <h3>
        Share kinds on {device.name} <span class="quiet">{bytes(device.memory_bytes)}</span>
      </h3>
      {device.error && <p class="problem">{device.error}</p>}
      <Table
        caption={`Share kinds that were tried on ${device.name}, the best first`}
        rows={device.tried}
        rowKey={(t) => t.kind}
        columns={[
          { key: "kind", title: "Kind", cell: (t) => <code>{t.kind}</code> },
          { key: "ok", title: "Works", cell: (t) => <Badge tone={t.ok ? "good" : "off"}>{t.ok ? "yes" : "no"}</Badge> },
          { key: "reason", title: "Why", cell: (t) => <span class="break">{t.reason}</span> },
        ]}
      />
    </div>
  );
}
