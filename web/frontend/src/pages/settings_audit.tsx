/** The audit: changes with their author. */

import type { AuditAnswer } from "../answers";
import { moment } from "../format";
import { Older } from "../parts/older";
import { usePaged } from "../parts/paged";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 1);
}

export function AuditSection() {
  const found = usePaged<AuditAnswer>("/audit", 50);
  return (
    <section class="card" aria-labelledby="audit-title">
      <div class="card-head">
        <h2 id="audit-title">Audit log</h2>
        <button type="button" onClick={found.again}>
          Refresh
        </button>
      </div>
      <p class="quiet lead">Every change of settings, models and rights: who made it, when, and from where. Secrets are never in it.</p>
      {found.error !== null && <ErrorBox what="The audit log could not be asked" error={found.error} onRetry={found.again} />}
      {found.rows === null && found.error === null && <Loading />}
      {found.rows?.length === 0 && <Empty title="Nothing was changed yet" />}
      {found.rows !== null && found.rows.length > 0 && (
        <Table
          caption="Changes, newest first"
          rows={found.rows}
          rowKey={(e) => e.id}
          columns={[
            { key: "when", title: "When", cell: (e) => <time dateTime={new Date(1000 * e.utc_s).toISOString()}>{moment(e.utc_s)}</time> },
            {
              key: "by",
              title: "Who",
              cell: (e) => (
                <>
                  {e.by}
                  {e.from && <span class="quiet under">{e.from}</span>}
                </>
              ),
            },
            { key: "subject", title: "What", cell: (e) => <span class="break">{e.subject}</span> },
            { key: "action", title: "Change", cell: (e) => e.action },
            {
              key: "value",
              title: "New value",
              cell: (e) =>
                e.value === null || e.value === undefined || e.value === "" ? (
                  <span class="quiet">–</span>
                ) : (
                  <details>
                    <summary>Show</summary>
                    <pre class="value">{shown(e.value)}</pre>
                  </details>
                ),
            },
          ]}
        />
      )}
      <Older of={found} words="Older changes" />
    </section>
  );
}
