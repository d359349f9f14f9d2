/** The demands on the served models: rates, objectives, priorities, and how the device is shared. In force at once. */

import { useState } from "preact/hooks";

import type { Me } from "../api";
import { ask, problemsOf, words } from "../api";
import { Dialog } from "../parts/dialog";
import { FormProblems, SelectField, TextField, typedNumber, useCheck } from "../parts/form";
import { optionsOf } from "../parts/options";
import type { Demand, Planning, ServedModel, Serving } from "../parts/served";
import { LATENCIES, SERVING_POLICIES, SPLIT_POLICIES, useServingPolicies } from "../parts/served";
import { toast } from "../parts/toasts";
import { Unsaved } from "../parts/unsaved";
import { may, seesAll, whyNot } from "../session";

interface ModelProps {
  model: ServedModel;
  serving: Serving;
  onChanged: (serving: Serving) => void;
  onClose: () => void;
}

type Draft = Record<keyof Demand, string>;

const DEMANDS: { field: keyof Demand; label: string; unit: string; hint: string }[] = [
  { field: "slo_ms", label: "Objective", unit: "ms", hint: "Each request is answered within it. Empty: as model.yaml says." },
  { field: "rate", label: "Rate to expect", unit: "requests/s", hint: "The rate to plan for now; real traffic corrects it." },
  { field: "min_rate", label: "Least rate", unit: "requests/s", hint: "Always planned for, also when no client asks." },
  { field: "priority", label: "Priority", unit: "", hint: "When not all fits, the lowest yields first." },
];

function textOf(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : String(value);
}

/** Only what differs from what was there: fields that were not touched stay as they are. */
function changes(draft: Draft, before: Partial<Demand>): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const { field } of DEMANDS) {
    if (draft[field].trim() !== textOf(before[field])) out[field] = typedNumber(draft[field]);
  }
  return out;
}

/** Changes the serving settings. `whole`: what they would be, checked while one types; null: nothing to check. */
function useServingChange(whole: unknown) {
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  const [problems, setProblems] = useCheck("serving", whole);
  const send = async (patch: unknown, onDone: (serving: Serving) => void): Promise<void> => {
    setBusy(true);
    setFailure("");
    try {
      onDone(await ask<Serving>("/serving", "PATCH", patch));
    } catch (error) {
      const found = problemsOf(error);
      setProblems(found);
      setFailure(found.length === 0 ? words(error) : "");
    } finally {
      setBusy(false);
    }
  };
  return { problems, failure, busy, send };
}

export function ModelDialog({ model, serving, onChanged, onClose }: ModelProps) {
  const before: Partial<Demand> = serving.settings.models[model.name] ?? {};
  const [draft, setDraft] = useState<Draft>({
    slo_ms: textOf(before.slo_ms),
    rate: textOf(before.rate),
    min_rate: textOf(before.min_rate),
    priority: textOf(before.priority),
  });
  const changed = changes(draft, before);
  const whole = { ...serving.settings, models: { ...serving.settings.models, [model.name]: { ...before, ...changed } } };
  const { problems, failure, busy, send } = useServingChange(Object.keys(changed).length > 0 ? whole : null);
  const path = (field: string): string => `models.${model.name}.${field}`;

  const save = (patch: unknown, said: string): Promise<void> =>
    send({ models: { [model.name]: patch } }, (answer) => {
      onChanged(answer);
      toast(said);
      onClose();
    });

  return (
    <Dialog title={`Change ${model.name}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save(changed, `${model.name} was changed`);
        }}
      >
        {DEMANDS.map(({ field, label, unit, hint }) => (
          <TextField
            key={field}
            label={label}
            path={path(field)}
            problems={problems}
            value={draft[field]}
            onChange={(value) => setDraft({ ...draft, [field]: value })}
            hint={hint}
            unit={unit}
            input={{ inputMode: "decimal", autocomplete: "off", ...(field === "slo_ms" && model.slo_ms !== null ? { placeholder: String(model.slo_ms) } : {}) }}
          />
        ))}
        <FormProblems problems={problems} fields={DEMANDS.map((d) => path(d.field))} failure={failure} />
        <p class="quiet small">In force at once, and kept over restarts. A new plan is made; no request is lost while it takes over.</p>
        <div class="actions end">
          {Object.values(before).some((v) => v !== null) && (
            <button type="button" disabled={busy} onClick={() => void save(null, `${model.name} is asked for as model.yaml says`)}>
              As in model.yaml
            </button>
          )}
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy || Object.keys(changed).length === 0 || problems.length > 0}>
            {busy ? "Changing…" : "Change"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

type ChoiceField = "policy" | "split" | "latencies";
type NumberField = Exclude<keyof Planning, ChoiceField | "models">;
type PlanningDraft = Partial<Record<NumberField | ChoiceField, string>>;

const CHOICES: { field: ChoiceField; label: string; hint: string }[] = [
  { field: "policy", label: "Policy", hint: "Plans the gpu-lets. The new plan takes over at once." },
  { field: "split", label: "Objectives of applications", hint: "How the time of an application is divided over its stages." },
  { field: "latencies", label: "Latencies of plans", hint: "Reckoned with where batches do not take what was measured." },
];

const FIELDS: { field: NumberField; label: string; unit: string; hint: string }[] = [
  { field: "max_share", label: "Share at most", unit: "of 1", hint: "Of the device, for all models together. Cameras have the rest." },
  {
    field: "cameras_priority",
    label: "Priority of cameras",
    unit: "",
    hint: "Models of a lower priority get only what cameras leave when they are at their best.",
  },
  { field: "headroom", label: "Headroom", unit: "times", hint: "Rates are planned higher by this factor." },
  { field: "rise_half_life_s", label: "Half-life of a rising rate", unit: "s", hint: "How quickly a rate that rises is believed." },
  { field: "half_life_s", label: "Half-life of a falling rate", unit: "s", hint: "How quickly a rate that falls is believed." },
  { field: "grow_dwell_s", label: "Least time before growing", unit: "s", hint: "Between plans for more requests." },
  { field: "shrink_dwell_s", label: "Least time before shrinking", unit: "s", hint: "Between plans for fewer requests." },
];

function isChoice(field: NumberField | ChoiceField): field is ChoiceField {
  return CHOICES.some((choice) => choice.field === field);
}

/** Only what differs from what is in force. */
function planningPatch(draft: PlanningDraft, now: Planning): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  for (const [field, text] of Object.entries(draft) as [NumberField | ChoiceField, string][]) {
    if (isChoice(field)) {
      if (text !== now[field]) patch[field] = text;
    } else if (text.trim() !== textOf(now[field])) patch[field] = typedNumber(text);
  }
  return patch;
}

interface PlanningProps {
  serving: Serving;
  me: Me;
  onChanged: (serving: Serving) => void;
}

export function PlanningCard(props: PlanningProps) {
  const { me } = props;
  const allowed = may(me, "operator") && seesAll(me);
  return (
    <section class="card" aria-labelledby="planning-title">
      <h2 id="planning-title">How the device is shared</h2>
      {!allowed && <p class="quiet about">{may(me, "operator") ? "Only users who may see every camera may change this." : whyNot("operator")}</p>}
      <PlanningForm {...props} allowed={allowed} />
    </section>
  );
}

function PlanningForm({ serving, onChanged, allowed }: PlanningProps & { allowed: boolean }) {
  const now = serving.settings;
  const policies = useServingPolicies();
  const inForce = policies.some((p) => p.value === now.policy) ? [] : [{ value: now.policy, label: SERVING_POLICIES[now.policy] ?? now.policy }];
  const options = { policy: [...policies, ...inForce], split: optionsOf(SPLIT_POLICIES), latencies: optionsOf(LATENCIES) };
  const [draft, setDraft] = useState<PlanningDraft>({});
  const patch = planningPatch(draft, now);
  const dirty = Object.keys(patch).length > 0;
  const { problems, failure, busy, send } = useServingChange(dirty ? { ...now, ...patch } : null);

  const save = (event: Event): void => {
    event.preventDefault();
    void send(patch, (answer) => {
      onChanged(answer);
      setDraft({});
      toast("Serving settings are in force");
    });
  };

  return (
    <form class="planning" onSubmit={save}>
      {CHOICES.map(({ field, label, hint }) => (
        <SelectField
          key={field}
          label={label}
          path={field}
          problems={problems}
          value={draft[field] ?? now[field]}
          disabled={!allowed}
          options={options[field]}
          onChange={(value) => setDraft({ ...draft, [field]: value })}
          hint={hint}
        />
      ))}
      {FIELDS.map(({ field, label, unit, hint }) => (
        <TextField
          key={field}
          label={label}
          path={field}
          problems={problems}
          value={draft[field] ?? textOf(now[field])}
          onChange={(value) => setDraft({ ...draft, [field]: value })}
          hint={hint}
          unit={unit}
          input={{ inputMode: "decimal", autocomplete: "off", disabled: !allowed }}
        />
      ))}
      <FormProblems problems={problems} fields={[...CHOICES, ...FIELDS].map((f) => f.field)} failure={failure} />
      <Unsaved when={allowed && dirty} />
      {allowed && <PlanningActions dirty={dirty} busy={busy} wrong={problems.length > 0} onUndo={() => setDraft({})} />}
    </form>
  );
}

interface ActionsProps {
  dirty: boolean;
  busy: boolean;
  /** The server objects to what is typed. */
  wrong: boolean;
  onUndo: () => void;
}

function PlanningActions({ dirty, busy, wrong, onUndo }: ActionsProps) {
  return (
    <div class="actions">
      <button type="submit" class="primary" disabled={busy || !dirty || wrong}>
        {busy ? "Changing…" : "Change"}
      </button>
      <button type="button" disabled={busy || !dirty} onClick={onUndo}>
        Undo
      </button>
      <span class="quiet small">In force at once, and kept over restarts.</span>
    </div>
  );
}
