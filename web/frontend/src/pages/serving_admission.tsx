/** Would another model, application or camera fit, and what would it cost the others? Nothing is changed by asking. */

import { useState } from "preact/hooks";

import type { Me, Overview } from "../api";
import { ask, problemsOf, words } from "../api";
import { useAsked } from "../parts/asking";
import { FormProblems, SelectField, useCheck } from "../parts/form";
import type { Option } from "../parts/schema_form";
import type { Admission, ServedModel } from "../parts/served";
import { useServingPolicies } from "../parts/served";
import type { Tenant, TenantsAnswer } from "../parts/tenants";
import { tenantName } from "../parts/tenants";
import { may, seesAll, whyNot } from "../session";
import { AdmissionVerdict } from "./serving_admission_answer";
import type { Draft } from "./serving_admission_draft";
import { firstDraft, isFilled, requestOf, typedRate, withRate } from "./serving_admission_draft";
import { ApplicationFields, CameraFields, KindChoice, ModelFields, PlannedFields } from "./serving_admission_fields";

/** Both planners are asked; on large sites that takes a while. */
const TIMEOUT_MS = 60_000;

/** The paths of the fields: of each kind, and of how served models are planned. */
const FIELDS = {
  model: ["model.name", "model.rate", "model.slo_ms", "model.priority", "model.table"],
  pipeline: ["pipeline.name", "pipeline.rate", "pipeline.slo_ms"],
  camera: ["camera.id", "camera.like", "camera.accuracy"],
};
const PLANNED = ["policy", "split", "tenant"];

interface Props {
  models: ServedModel[];
  /** Names of the applications that are served. */
  applications: string[];
  overview: Overview;
  me: Me;
}

/** The planners' answer, and the server's objections to what is typed. `checked`: the body to check while one types. */
function useVerdict(checked: unknown) {
  const [answer, setAnswer] = useState<Admission | null>(null);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  const [problems, setProblems] = useCheck("admission", checked);
  const send = async (body: unknown): Promise<void> => {
    setBusy(true);
    setFailure("");
    setProblems([]);
    setAnswer(null);
    try {
      setAnswer(await ask<Admission>("/admission", "POST", body, TIMEOUT_MS));
    } catch (error) {
      const found = problemsOf(error);
      setProblems(found);
      setFailure(found.length === 0 ? words(error) : "");
    } finally {
      setBusy(false);
    }
  };
  const forget = (): void => {
    setAnswer(null);
    setProblems([]);
  };
  return { answer, problems, failure, busy, send, forget, setFailure };
}

/** The draft and all that is done with it. */
function useAdmission({ models, applications }: Props, tenants: readonly Tenant[], allowed: boolean) {
  const [draft, setDraft] = useState<Draft>(() => firstDraft(models.length > 0 ? "model" : "camera", applications[0] ?? ""));
  const put = (part: Partial<Draft>): void => setDraft((before) => ({ ...before, ...part }));
  const { kind } = draft;
  const fitting = tenants.filter((t) => (t.settings.objective.metric === "accuracy") === (kind === "camera"));
  const tenant = fitting.some((t) => t.id === draft.tenant) ? draft.tenant : "";
  const request = (rate: string): unknown => requestOf(draft, rate, applications, tenant);
  const checks = allowed && isFilled(draft, applications) && draft.table === null;
  const verdict = useVerdict(checks ? request(typedRate(draft)) : null);

  const choose = (chosen: Draft["kind"]): void => {
    put({ kind: chosen });
    verdict.forget();
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    void verdict.send(request(typedRate(draft)));
  };
  const tryRate = (most: number): void => {
    const rate = String(Math.floor(100 * most) / 100);
    put(withRate(draft, rate));
    void verdict.send(request(rate));
  };
  const readTable = async (input: HTMLInputElement): Promise<void> => {
    const file = input.files?.[0];
    put({ table: null });
    verdict.setFailure("");
    if (file === undefined) return;
    try {
      put({ table: { name: file.name, value: JSON.parse(await file.text()) } });
    } catch {
      verdict.setFailure(`${file.name} is not JSON`);
    }
  };
  return { draft, put, fitting, tenant, verdict, choose, submit, tryRate, readTable };
}

export function AdmissionCard(props: Props) {
  const { overview, me } = props;
  const allowed = may(me, "operator") && seesAll(me);
  const policies = useServingPolicies();
  const shared = useAsked<TenantsAnswer>(allowed ? "/tenants" : null).value;
  const tenants = shared?.active ? shared.tenants : [];
  const admission = useAdmission(props, tenants, allowed);
  const { answer } = admission.verdict;
  return (
    <section class="card" aria-labelledby="admission-title">
      <h2 id="admission-title">Would it fit?</h2>
      <p class="quiet about">
        Asks both planners what adding a model or a camera, or another rate, objective or policy for an application, would do: whether it
        fits, and what it would cost the others. Nothing is changed.
      </p>
      {!allowed ? (
        <p class="quiet">{may(me, "operator") ? "Only users who may see every camera may do this." : whyNot("operator")}</p>
      ) : (
        <AdmissionForm {...props} admission={admission} tenants={tenants} policies={policies} />
      )}
      {answer !== null && <AdmissionVerdict answer={answer} overview={overview} tenants={tenants} onTry={admission.tryRate} />}
    </section>
  );
}

interface FormProps extends Props {
  admission: ReturnType<typeof useAdmission>;
  tenants: readonly Tenant[];
  policies: Option[];
}

function AdmissionForm({ models, applications, overview, admission, tenants, policies }: FormProps) {
  const { draft, put, fitting, tenant, choose, submit, readTable } = admission;
  const { problems, failure, busy } = admission.verdict;
  const fields = { draft, put, problems };
  return (
    <form class="admission" onSubmit={submit}>
      <KindChoice kind={draft.kind} applications={applications} onChoose={choose} />
      {draft.kind === "model" ? (
        <ModelFields {...fields} models={models} onFile={readTable} />
      ) : draft.kind === "pipeline" ? (
        <ApplicationFields {...fields} applications={applications} />
      ) : (
        <CameraFields {...fields} cameras={overview.cameras} />
      )}
      {models.length > 0 && <PlannedFields {...fields} policies={policies} />}
      {fitting.length > 0 && (
        <SelectField
          label="Tenant"
          path="tenant"
          problems={problems}
          value={tenant}
          onChange={(chosen) => put({ tenant: chosen })}
          options={[
            { value: "", label: "The one that has it, else the default" },
            ...fitting.map((t) => ({ value: t.id, label: tenantName(tenants, t.id) })),
          ]}
          hint="It is planned within what this tenant may have."
        />
      )}
      <FormProblems problems={problems} fields={[...FIELDS[draft.kind], ...PLANNED]} failure={failure} />
      <div class="actions">
        <button type="submit" class="primary" disabled={busy || problems.length > 0}>
          {busy ? "Asking the planners…" : "Ask"}
        </button>
      </div>
    </form>
  );
}
