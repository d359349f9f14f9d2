/** The plan of another policy for the same window, beside the plan that was made. Nothing is changed. */

import { useRef, useState } from "preact/hooks";

import type { Camera, Me } from "../api";
import { ask } from "../api";
import { percent, points } from "../format";
import type { Explained, Side, WhatIf } from "../parts/explained";
import { POLICIES } from "../parts/explained";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { may, seesAll, whyNot } from "../session";
import { PlanChart, cameraName } from "./windows_plan";

/** The search of the exact policy takes a while on large sites. */
const TIMEOUT_MS = 60_000;

interface Props {
  explained: Explained;
  me: Me;
  cameras: Camera[];
}

interface Comparisons {
  answers: Record<string, WhatIf>;
  /** The policy that is asked now. */
  asking: string | null;
  /** The policy whose plan is shown. */
  shown: string | null;
  error: unknown;
  show: (policy: string) => void;
  /** Asks one policy after another; the plan of a single one is shown at once. */
  compare: (policies: string[]) => Promise<void>;
}

function useComparisons(window: number): Comparisons {
  const [answers, setAnswers] = useState<Record<string, WhatIf>>({});
  const [asking, setAsking] = useState<string | null>(null);
  const [shown, setShown] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const busy = useRef(false);

  const compare = async (policies: string[]): Promise<void> => {
    if (busy.current) return;
    busy.current = true;
    setError(null);
    try {
      for (const one of policies) {
        setAsking(one);
        const answer = await ask<WhatIf>(`/windows/${window}/what-if`, "POST", { policy: one }, TIMEOUT_MS);
        setAnswers((before) => ({ ...before, [one]: answer }));
      }
      if (policies.length === 1) setShown(policies[0] ?? null);
    } catch (failure) {
      setError(failure);
    } finally {
      busy.current = false;
      setAsking(null);
    }
  };
  return { answers, asking, shown, error, show: setShown, compare };
}

export function WhatIfCard({ explained, me, cameras }: Props) {
  const others = explained.policies.filter((p) => p !== explained.window.policy);
  const [policy, setPolicy] = useState(others[0] ?? "");
  const { answers, asking, shown, error, show, compare } = useComparisons(explained.window.id);
  const allowed = may(me, "operator") && seesAll(me);
  const nothing = explained.cameras.every((c) => c.options.length === 0);
  const asked = explained.policies.flatMap((p) => answers[p] ?? []);
  const answer = shown === null ? undefined : answers[shown];
  return (
    <section class="card" aria-labelledby="what-if-title">
      <h3 id="what-if-title">What if another policy had planned?</h3>
      <p class="quiet about">
        The same estimates, planned by another policy, in shares that this device can give. Both are valued by the same rule: the mean over
        cameras and time of the accuracy that is expected. Nothing is changed by asking.
      </p>
      {nothing && <p class="quiet about">Nothing was estimated for this window, so no policy could have retrained in it.</p>}
      {!allowed ? (
        <p class="quiet">{may(me, "operator") ? "Only users who may see every camera may do this." : whyNot("operator")}</p>
      ) : (
        <div class="what-if-ask">
          <label>
            Policy
            <select value={policy} onChange={(e) => setPolicy(e.currentTarget.value)}>
              {others.map((p) => (
                <option key={p} value={p}>
                  {POLICIES[p] ?? p}
                </option>
              ))}
            </select>
          </label>
          <button type="button" class="primary" disabled={asking !== null} onClick={() => void compare([policy])}>
            Compare
          </button>
          <button type="button" disabled={asking !== null} onClick={() => void compare(others)}>
            Compare with all
          </button>
        </div>
      )}
      {asking !== null && <Loading what={`Asking ${asking}`} />}
      {error !== null && <ErrorBox what="The other plan could not be made" error={error} />}
      {asked.length > 1 && <AskedTable asked={asked} shown={shown} onShow={show} />}
      {answer !== undefined && <Comparison answer={answer} explained={explained} cameras={cameras} />}
    </section>
  );
}

/** The policies that were asked, the best first. */
function AskedTable({ asked, shown, onShow }: { asked: WhatIf[]; shown: string | null; onShow: (policy: string) => void }) {
  return (
    <Table
      caption="What each policy would have reached"
      rows={[...asked].sort((a, b) => b.objective - a.objective)}
      rowKey={(a) => a.policy}
      rowClass={(a) => (a.policy === shown ? "chosen" : "")}
      columns={[
        { key: "policy", title: "Policy", cell: (a) => POLICIES[a.policy] ?? a.policy },
        { key: "objective", title: "Expected accuracy", number: true, cell: (a) => percent(a.objective, 1) },
        { key: "difference", title: "Against the plan made", number: true, cell: (a) => points(a.objective - a.original_objective) },
        {
          key: "show",
          title: "Plan",
          cell: (a) => (
            <button type="button" class="link" aria-label={`Show the plan of ${a.policy}`} onClick={() => onShow(a.policy)}>
              Show
            </button>
          ),
        },
      ]}
    />
  );
}

function Comparison({ answer, explained, cameras }: { answer: WhatIf; explained: Explained; cameras: Camera[] }) {
  const { made, asked } = answer.comparison;
  const difference = answer.objective - answer.original_objective;
  const verdict =
    Math.abs(difference) < 0.0005
      ? "as good as the plan that was made"
      : `${points(Math.abs(difference)).replace(/^\+/, "")} ${difference > 0 ? "better" : "worse"} than the plan that was made`;
  return (
    <div class="comparison" role="group" aria-label={`Comparison with ${answer.policy}`}>
      <p class="verdict" role="status">
        <strong>{answer.policy}</strong> would be expected to reach <strong>{percent(answer.objective, 1)}</strong>, {verdict} (
        {percent(answer.original_objective, 1)}).
      </p>
      <div class="side-by-side">
        {([
          ["Made", made],
          ["Asked", asked],
        ] as const).map(([title, side]) => (
          <div key={title}>
            <h4>
              {title}: {side.policy}, {percent(side.objective, 1)}
            </h4>
            <PlanChart
              label={`Plan by ${side.policy}`}
              timeline={side.timeline}
              length_s={answer.comparison.length_s}
              start_utc_s={explained.window.start_utc_s}
              now_s={null}
              cameras={cameras}
              configs={answer.comparison.configs}
            />
          </div>
        ))}
      </div>
      <Table
        caption="Expected accuracy of each camera under both plans"
        rows={Object.keys(made.cameras)}
        rowKey={(c) => c}
        columns={[
          { key: "camera", title: "Camera", cell: (c) => cameraName(cameras, c) },
          { key: "made", title: `Made: ${made.policy}`, number: true, cell: (c) => percent(made.cameras[c], 1) },
          { key: "asked", title: `Asked: ${asked.policy}`, number: true, cell: (c) => percent(asked.cameras[c], 1) },
          { key: "difference", title: "Difference", number: true, cell: (c) => points((asked.cameras[c] ?? 0) - (made.cameras[c] ?? 0)) },
          { key: "lowest", title: "Lowest at any time", number: true, cell: (c) => `${percent(made.lowest[c])} → ${percent(asked.lowest[c])}` },
          { key: "why", title: `Why, says ${asked.policy}`, cell: (c) => <Why side={asked} camera={c} /> },
        ]}
      />
    </div>
  );
}

function Why({ side, camera }: { side: Side; camera: string }) {
  return <>{(side.reasons[camera] ?? []).map((reason) => `${reason}.`).join(" ")}</>;
}
