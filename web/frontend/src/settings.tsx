/** Settings of the retraining windows. Only what was changed is sent; the server's objections stand at their fields. */

import { useState } from "preact/hooks";

import type { Problem, Retraining } from "./api";
import { ApiError, ask, words } from "./api";
import { clock, left } from "./format";

interface FieldSpec {
  path: string;
  name: string;
  hint: string;
  kind: "number" | "optional" | "policy" | "switch";
  unit?: string;
  step?: string;
}

const POLICIES = ["relay", "exact", "thief", "uniform", "uniform-heavy", "no-retraining", "fixed-resources", "fixed-config"];

const FIELDS: FieldSpec[] = [
  { path: "enabled", name: "Retrain", hint: "Off: windows are only measured", kind: "switch" },
  { path: "window_s", name: "Window length", hint: "How often models are renewed", kind: "number", unit: "s", step: "1" },
  { path: "policy", name: "Policy", hint: "Who decides what is retrained when", kind: "policy" },
  { path: "a_min", name: "Accuracy floor", hint: "Never below it while retraining, 0 to 1; empty: none", kind: "optional", step: "0.01" },
  { path: "label_budget", name: "Label budget", hint: "Frames per camera and window", kind: "number", unit: "frames", step: "1" },
  { path: "golden_share", name: "Share for labelling", hint: "Of the device, 0.01 to 0.9", kind: "number", step: "0.01" },
  { path: "gate_tolerance", name: "Gate tolerance", hint: "So much worse may a new model be, 0 to 0.2", kind: "number", step: "0.01" },
  { path: "rollback_margin", name: "Roll-back margin", hint: "Rolls back when so far under its parent", kind: "number", step: "0.01" },
];

type Draft = Record<string, string | boolean>;

function shown(value: unknown): string | boolean {
  return typeof value === "boolean" ? value : value === null || value === undefined ? "" : String(value);
}

function sent(field: FieldSpec, value: string | boolean): unknown {
  if (typeof value === "boolean" || field.kind === "policy") return value;
  const trimmed = value.trim();
  if (trimmed === "") return field.kind === "optional" ? null : "";
  const number = Number(trimmed.replace(",", "."));
  return Number.isNaN(number) ? trimmed : number; // the server says what is wrong with it
}

interface Props {
  retraining: Retraining;
  now_s: number;
  onChange: (retraining: Retraining) => void;
}

export function Settings({ retraining, now_s, onChange }: Props) {
  const [draft, setDraft] = useState<Draft>({});
  const [problems, setProblems] = useState<Problem[]>([]);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  const [saved, setSaved] = useState(false);

  const dirty = FIELDS.filter((f) => f.path in draft && draft[f.path] !== shown(retraining.next[f.path]));
  const pending = FIELDS.filter((f) => retraining.current[f.path] !== retraining.next[f.path]);
  const others = problems.filter((p) => !FIELDS.some((f) => f.path === p.path));

  const change = (path: string, value: string | boolean): void => {
    setDraft({ ...draft, [path]: value });
    setProblems(problems.filter((p) => p.path !== path));
    setSaved(false);
  };

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure("");
    setProblems([]);
    const patch = Object.fromEntries(dirty.map((f) => [f.path, sent(f, draft[f.path] ?? "")]));
    try {
      onChange(await ask<Retraining>("/retraining", "PATCH", patch));
      setDraft({});
      setSaved(true);
    } catch (error) {
      if (error instanceof ApiError && error.problems.length > 0) {
        setProblems(error.problems);
        const first = FIELDS.find((f) => error.problems.some((p) => p.path === f.path));
        if (first) document.getElementById(`set-${first.path}`)?.focus();
      } else setFailure(words(error));
    } finally {
      setBusy(false);
    }
  };

  const boundary = retraining.next_boundary_utc_s;
  const when = `${clock(boundary)} (in ${left(boundary - now_s)})`;
  return (
    <section class="card" aria-labelledby="settings-title">
      <h2 id="settings-title">Retraining windows</h2>
      <form onSubmit={(e) => void save(e)} noValidate autoComplete="off">
        {FIELDS.map((field) => (
          <Field
            key={field.path}
            field={field}
            value={draft[field.path] ?? shown(retraining.next[field.path])}
            problem={problems.find((p) => p.path === field.path)}
            onChange={(value) => change(field.path, value)}
          />
        ))}
        {others.map((p) => (
          <p key={p.path} class="problem" role="alert">
            {p.path}: {p.allowed}
          </p>
        ))}
        {failure && (
          <p class="problem" role="alert">
            Not saved: {failure}
          </p>
        )}
        <div class="actions">
          <button class="primary" type="submit" disabled={dirty.length === 0 || busy}>
            {busy ? "Saving…" : "Save"}
          </button>
          {dirty.length > 0 && (
            <button
              type="button"
              onClick={() => {
                setDraft({});
                setProblems([]);
                setFailure("");
              }}
            >
              Undo
            </button>
          )}
        </div>
        <div class="takes-effect" role="status">
          {pending.length > 0 ? (
            <>
              <p>
                {saved ? "Saved. " : ""}Takes effect at {when}:
              </p>
              <ul>
                {pending.map((f) => (
                  <li key={f.path}>
                    {f.name}: {String(retraining.current[f.path] ?? "none")} → {String(retraining.next[f.path] ?? "none")}
                  </li>
                ))}
              </ul>
            </>
          ) : (
            <p class="quiet">{saved ? "Saved. This is what is in force already." : `Changes take effect at ${when}.`}</p>
          )}
        </div>
      </form>
    </section>
  );
}

interface FieldProps {
  field: FieldSpec;
  value: string | boolean;
  problem: Problem | undefined;
  onChange: (value: string | boolean) => void;
}

function Field({ field, value, problem, onChange }: FieldProps) {
  const id = `set-${field.path}`;
  const described = `${id}-hint${problem ? ` ${id}-problem` : ""}`;
  const common = { id, "aria-describedby": described, "aria-invalid": problem !== undefined };
  let input;
  if (field.kind === "switch") {
    input = <input {...common} type="checkbox" checked={value === true} onChange={(e) => onChange(e.currentTarget.checked)} />;
  } else if (field.kind === "policy") {
    input = (
      <select {...common} value={String(value)} onChange={(e) => onChange(e.currentTarget.value)}>
        {POLICIES.map((p) => (
          <option key={p} value={p}>
            {p}
          </option>
        ))}
      </select>
    );
  } else {
    input = (
      <input {...common} type="text" inputMode="decimal" value={String(value)} onInput={(e) => onChange(e.currentTarget.value)} />
    );
  }
  return (
    <div class={problem ? "field wrong" : "field"}>
      <label for={id}>{field.name}</label>
      <span class="input">
        {input}
        {field.unit && <span class="quiet">{field.unit}</span>}
      </span>
      <p class="hint" id={`${id}-hint`}>
        {field.hint}
      </p>
      {problem && (
        <p class="problem" id={`${id}-problem`} role="alert">
          Allowed: {problem.allowed}
        </p>
      )}
    </div>
  );
}
