/** The recorded day under another policy, beside the day as it was. Nothing is changed. */

import { useState } from "preact/hooks";

import { ask } from "../api";
import type { Me } from "../api";
import { duration, moment, percent, points } from "../format";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import type { SharingPolicyName, SharingWhatIf, Tenant } from "../parts/tenants";
import { SHARING_POLICIES, tenantName } from "../parts/tenants";
import { may, seesAll, whyNot } from "../session";

/** A day of many tenants takes a while. */
const TIMEOUT_MS = 60_000;

interface Props {
  tenants: Tenant[];
  /** The one in force. */
  policy: SharingPolicyName;
  me: Me;
}

export function SharingWhatIfCard({ tenants, policy, me }: Props) {
  const others = Object.entries(SHARING_POLICIES).filter(([name]) => name !== policy);
  const [chosen, setChosen] = useState<string | null>(null);
  const [answer, setAnswer] = useState<SharingWhatIf | null>(null);
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const allowed = may(me, "operator") && seesAll(me);
  const shown = chosen !== null && chosen !== policy ? chosen : (others[0]?.[0] ?? policy);

  const compare = async (): Promise<void> => {
    setAsking(true);
    setError(null);
    try {
      setAnswer(await ask<SharingWhatIf>("/sharing/what-if", "POST", { policy: shown }, TIMEOUT_MS));
    } catch (failure) {
      setError(failure);
    } finally {
      setAsking(false);
    }
  };

  return (
    <section class="card" aria-labelledby="what-if-title">
      <h2 id="what-if-title">What if another policy had shared?</h2>
      <p class="quiet about">The last day, replayed with the learned curves, moved so that they go through what was measured. Nothing is changed by asking.</p>
      {!allowed ? (
        <p class="quiet">{may(me, "operator") ? "Only users who may see every camera may do this." : whyNot("operator")}</p>
      ) : (
        <div class="what-if-ask">
          <label>
            Policy
            <select value={shown} onChange={(e) => setChosen(e.currentTarget.value)}>
              {others.map(([name, words]) => (
                <option key={name} value={name}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          <button type="button" disabled={asking} onClick={() => void compare()}>
            Compare
          </button>
        </div>
      )}
      {asking && <Loading what="Replaying the day" />}
      {error !== null && <ErrorBox what="The day could not be replayed" error={error} />}
      {answer !== null && !asking && <Comparison answer={answer} tenants={tenants} />}
    </section>
  );
}

function difference(now: number | null, other: number | null): string {
  return now === null || other === null ? "–" : points(other - now);
}

function Comparison({ answer, tenants }: { answer: SharingWhatIf; tenants: Tenant[] }) {
  if (answer.rows === 0 || answer.from_utc_s === null) return <p role="status">Nothing was recorded yet: the first row comes after five minutes.</p>;
  const welfare = [
    { name: "Mean utility", was: answer.social_welfare, other: answer.other_social_welfare },
    { name: "Least utility", was: answer.egalitarian_welfare, other: answer.other_egalitarian_welfare },
  ];
  const words = SHARING_POLICIES[answer.policy as SharingPolicyName] ?? answer.policy;
  return (
    <div class="comparison" role="group" aria-label={`Comparison with ${answer.policy}`}>
      <p class="verdict" role="status">
        <strong>{words}</strong>, over {duration(answer.seconds)} from {moment(answer.from_utc_s)}:
      </p>
      <Table
        caption="Welfare as it was, and under the policy"
        rows={welfare}
        rowKey={(w) => w.name}
        columns={[
          { key: "name", title: "Of all tenants", cell: (w) => w.name },
          { key: "was", title: "As it was", number: true, cell: (w) => percent(w.was, 1) },
          { key: "other", title: "Expected", number: true, cell: (w) => percent(w.other, 1) },
          { key: "difference", title: "Difference", number: true, cell: (w) => difference(w.was, w.other) },
        ]}
      />
      <Table
        caption="Each tenant as it was, and under the policy"
        rows={[...answer.tenants]}
        rowKey={(t) => t.id}
        columns={[
          { key: "name", title: "Tenant", cell: (t) => tenantName(tenants, t.id) },
          { key: "share", title: "Share: was, expected", number: true, cell: (t) => `${percent(t.share)}, ${percent(t.other_share)}` },
          { key: "utility", title: "Utility: was, expected", number: true, cell: (t) => `${percent(t.utility, 1)}, ${percent(t.other_utility, 1)}` },
          { key: "difference", title: "Difference", number: true, cell: (t) => difference(t.utility, t.other_utility) },
        ]}
      />
    </div>
  );
}
