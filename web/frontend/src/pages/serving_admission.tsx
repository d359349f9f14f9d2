/** Would another model, application or camera fit, and what would it cost the others? Nothing is changed by asking. */

import { useState } from "preact/hooks";

import type { Me, Overview } from "../api";
import { ask, problemsOf, words } from "../api";
import { percent, points } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Field, FormProblems, SelectField, TextField, typedNumber, useCheck } from "../parts/form";
import type { Admission, ServedModel } from "../parts/served";
import { milliseconds, rate, SPLIT_POLICIES, useServingPolicies } from "../parts/served";
import { Table } from "../parts/table";
import type { Tenant, TenantsAnswer } from "../parts/tenants";
import { tenantName } from "../parts/tenants";
import { href } from "../router";
import { may, seesAll, whyNot } from "../session";

/** Both planners are asked; on large sites that takes a while. */
const TIMEOUT_MS = 60_000;

type Kind = "model" | "pipeline" | "camera";

const CALLED = { model: "A model", pipeline: "An application", camera: "A camera" };

/** How served models are planned, if not as now. */
const PLANNED = ["policy", "split", "tenant"];
const AS_NOW = { value: "", label: "As now" };

const FIELDS = {
  model: ["model.name", "model.rate", "model.slo_ms", "model.priority", "model.table"],
  pipeline: ["pipeline.name", "pipeline.rate", "pipeline.slo_ms"],
  camera: ["camera.id", "camera.like", "camera.accuracy"],
};

interface Props {
  models: ServedModel[];
  /** Names of the applications that are served. */
  applications: string[];
  overview: Overview;
  me: Me;
}

export function AdmissionCard({ models, applications, overview, me }: Props) {
  const allowed = may(me, "operator") && seesAll(me);
  const [kind, setKind] = useState<Kind>(models.length > 0 ? "model" : "camera");
  const [model, setModel] = useState({ name: "", rate: "", slo_ms: "", priority: "0" });
  const [table, setTable] = useState<{ name: string; value: unknown } | null>(null);
  const [pipeline, setPipeline] = useState({ name: applications[0] ?? "", rate: "", slo_ms: "" });
  const [camera, setCamera] = useState({ id: "", like: "", accuracy: "" });
  const [planned, setPlanned] = useState({ policy: "", split: "" });
  const policies = useServingPolicies();
  const [tenant, setTenant] = useState("");
  const shared = useAsked<TenantsAnswer>(allowed ? "/tenants" : null).value;
  const tenants = shared?.active ? shared.tenants : [];
  const fitting = tenants.filter((t) => (t.settings.objective.metric === "accuracy") === (kind === "camera"));
  const chosen = fitting.some((t) => t.id === tenant) ? tenant : "";
  const [answer, setAnswer] = useState<Admission | null>(null);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);

  const request = (asked: { rate: string }): unknown => ({ ...candidate(asked), ...given({ ...planned, tenant: chosen }) });

  const candidate = (asked: { rate: string }): object => {
    if (kind === "pipeline") {
      const [perSecond, objective] = [typedNumber(asked.rate), typedNumber(pipeline.slo_ms)];
      const name = pipeline.name || applications[0];
      return { pipeline: { name, ...(perSecond === null ? {} : { rate: perSecond }), ...(objective === null ? {} : { slo_ms: objective }) } };
    }
    if (kind === "camera") {
      const accuracy = typedNumber(camera.accuracy);
      return { camera: { id: camera.id.trim(), ...(camera.like ? { like: camera.like } : {}), ...(accuracy === null ? {} : { accuracy }) } };
    }
    return {
      model: {
        name: model.name.trim(),
        rate: typedNumber(asked.rate),
        slo_ms: typedNumber(model.slo_ms),
        priority: typedNumber(model.priority) ?? 0,
        ...(table === null ? {} : { table: table.value }),
      },
    };
  };

  const filled = {
    model: [model.name, model.rate, model.slo_ms].every((v) => v.trim() !== ""),
    pipeline: applications.length > 0,
    camera: camera.id.trim() !== "",
  }[kind];
  const typed = kind === "pipeline" ? pipeline : model;
  const [problems, setProblems] = useCheck("admission", allowed && filled && table === null ? request(typed) : null);

  const send = async (asked: { rate: string }): Promise<void> => {
    setBusy(true);
    setFailure("");
    setProblems([]);
    setAnswer(null);
    try {
      setAnswer(await ask<Admission>("/admission", "POST", request(asked), TIMEOUT_MS));
    } catch (error) {
      const found = problemsOf(error);
      setProblems(found);
      setFailure(found.length === 0 ? words(error) : "");
    } finally {
      setBusy(false);
    }
  };

  const tryRate = (most: number): void => {
    const asked = { rate: String(Math.floor(100 * most) / 100) };
    if (kind === "pipeline") setPipeline({ ...pipeline, ...asked });
    else setModel({ ...model, ...asked });
    void send(asked);
  };

  const read = async (input: HTMLInputElement): Promise<void> => {
    const file = input.files?.[0];
    setTable(null);
    setFailure("");
    if (file === undefined) return;
    try {
      setTable({ name: file.name, value: JSON.parse(await file.text()) });
    } catch {
      setFailure(`${file.name} is not JSON`);
    }
  };

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
        <form
          class="admission"
          onSubmit={(event) => {
            event.preventDefault();
            void send(typed);
          }}
        >
          <fieldset class="kinds">
            <legend class="hidden">What to add</legend>
            {(["model", ...(applications.length > 0 ? (["pipeline"] as const) : []), "camera"] as const).map((k) => (
              <label key={k}>
                <input
                  type="radio"
                  name="admission-kind"
                  checked={kind === k}
                  onChange={() => {
                    setKind(k);
                    setAnswer(null);
                    setProblems([]);
                  }}
                />
                {CALLED[k]}
              </label>
            ))}
          </fieldset>
          {kind === "model" ? (
            <>
              <Field
                label="Model"
                path="model.name"
                problems={problems}
                hint="One whose latencies are known, or with a table below. One that is served is asked for anew."
              >
                {(tied) => (
                  <input
                    type="text"
                    {...tied}
                    list="admission-models"
                    autocomplete="off"
                    required
                    value={model.name}
                    onInput={(e) => setModel({ ...model, name: e.currentTarget.value })}
                  />
                )}
              </Field>
              <datalist id="admission-models">
                {models.map((m) => (
                  <option key={m.name} value={m.name} />
                ))}
              </datalist>
              <TextField
                label="Rate"
                path="model.rate"
                problems={problems}
                value={model.rate}
                onChange={(value) => setModel({ ...model, rate: value })}
                unit="requests/s"
                input={{ inputMode: "decimal", autocomplete: "off", required: true }}
              />
              <TextField
                label="Objective"
                path="model.slo_ms"
                problems={problems}
                value={model.slo_ms}
                onChange={(slo_ms) => setModel({ ...model, slo_ms })}
                unit="ms"
                input={{ inputMode: "decimal", autocomplete: "off", required: true }}
              />
              <TextField
                label="Priority of the model"
                path="model.priority"
                problems={problems}
                value={model.priority}
                onChange={(priority) => setModel({ ...model, priority })}
                hint="When not all fits, the lowest yields first."
                input={{ inputMode: "numeric", autocomplete: "off" }}
              />
              <div class="field">
                <label for="admission-table">Latencies</label>
                <span class="input">
                  <input id="admission-table" type="file" accept=".json,application/json" onChange={(e) => void read(e.currentTarget)} />
                </span>
                <p class="hint">Only where the appliance has none: the file that magpie profile wrote on this box.</p>
              </div>
            </>
          ) : kind === "pipeline" ? (
            <>
              <SelectField
                label="Application"
                path="pipeline.name"
                problems={problems}
                value={pipeline.name || (applications[0] ?? "")}
                onChange={(name) => setPipeline({ ...pipeline, name })}
                options={applications.map((name) => ({ value: name, label: name }))}
                hint="One that is served; magpie admit --pipeline asks about others."
              />
              <TextField
                label="Rate"
                path="pipeline.rate"
                problems={problems}
                value={pipeline.rate}
                onChange={(value) => setPipeline({ ...pipeline, rate: value })}
                unit="requests/s"
                hint="Empty: as planned now."
                input={{ inputMode: "decimal", autocomplete: "off" }}
              />
              <TextField
                label="Objective"
                path="pipeline.slo_ms"
                problems={problems}
                value={pipeline.slo_ms}
                onChange={(slo_ms) => setPipeline({ ...pipeline, slo_ms })}
                unit="ms"
                hint="Empty: its own."
                input={{ inputMode: "decimal", autocomplete: "off" }}
              />
            </>
          ) : (
            <>
              <TextField
                label="Camera"
                path="camera.id"
                problems={problems}
                value={camera.id}
                onChange={(id) => setCamera({ ...camera, id })}
                hint="The id that it would have."
                input={{ autocomplete: "off", required: true }}
              />
              <SelectField
                label="Like"
                path="camera.like"
                problems={problems}
                value={camera.like}
                onChange={(like) => setCamera({ ...camera, like })}
                options={[
                  { value: "", label: overview.cameras.length > 0 ? "An average camera" : "No other camera is there" },
                  ...overview.cameras.map((c) => ({ value: c.id, label: c.name })),
                ]}
                hint="Whose costs and gains are taken for it."
              />
              {overview.cameras.length === 0 && (
                <TextField
                  label="Accuracy of its first model"
                  path="camera.accuracy"
                  problems={problems}
                  value={camera.accuracy}
                  onChange={(accuracy) => setCamera({ ...camera, accuracy })}
                  hint="From 0 to 1; empty: 0.5."
                  input={{ inputMode: "decimal", autocomplete: "off" }}
                />
              )}
            </>
          )}
          {models.length > 0 && (
            <>
              <SelectField
                label="Served models planned by"
                path="policy"
                problems={problems}
                value={planned.policy}
                onChange={(policy) => setPlanned({ ...planned, policy })}
                options={[AS_NOW, ...policies]}
                hint="Another policy: what it would bring, beside what is in force now."
              />
              <SelectField
                label="Objectives of applications"
                path="split"
                problems={problems}
                value={planned.split}
                onChange={(split) => setPlanned({ ...planned, split })}
                options={[AS_NOW, ...Object.entries(SPLIT_POLICIES).map(([value, label]) => ({ value, label }))]}
              />
            </>
          )}
          {fitting.length > 0 && (
            <SelectField
              label="Tenant"
              path="tenant"
              problems={problems}
              value={chosen}
              onChange={setTenant}
              options={[
                { value: "", label: "The one that has it, else the default" },
                ...fitting.map((t) => ({ value: t.id, label: tenantName(tenants, t.id) })),
              ]}
              hint="It is planned within what this tenant may have."
            />
          )}
          <FormProblems problems={problems} fields={[...FIELDS[kind], ...PLANNED]} failure={failure} />
          <div class="actions">
            <button type="submit" class="primary" disabled={busy || problems.length > 0}>
              {busy ? "Asking the planners…" : "Ask"}
            </button>
          </div>
        </form>
      )}
      {answer !== null && <Answer answer={answer} overview={overview} tenants={tenants} onTry={tryRate} />}
    </section>
  );
}

/** The fields that were chosen. */
function given(chosen: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== ""));
}

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

interface AnswerProps {
  answer: Admission;
  overview: Overview;
  tenants: readonly Tenant[];
  onTry: (rate: number) => void;
}

function Answer({ answer, overview, tenants, onTry }: AnswerProps) {
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
