/** Settings of the retraining windows: in force from the next boundary on. */

import { useState } from "preact/hooks";

import type { Retraining } from "../api";
import { ask } from "../api";
import { clock, left } from "../format";
import { useAsked } from "../parts/asking";
import { POLICIES } from "../parts/explained";
import { SaveBar } from "../parts/save_bar";
import type { Group } from "../parts/schema_form";
import { SchemaFields, humanised, patchOf, useForm, valueAt } from "../parts/schema_form";
import { ErrorBox, Loading } from "../parts/states";
import { toast } from "../parts/toasts";
import { may, seesAll, whyNot } from "../session";
import type { SectionProps } from "./page";

const GROUPS: Group[] = [
  {
    title: "Windows",
    fields: [
      { path: "enabled", label: "Retrain", hint: "Off: windows are only measured, models stay as they are." },
      { path: "window_s", label: "Window length", unit: "s", hint: "How often models are renewed" },
      {
        path: "policy",
        label: "Policy",
        hint: "Decides which camera is retrained, when, and with how much of the device",
      },
      {
        path: "quiet_hours",
        label: "Quiet hours",
        hint: "Nothing is retrained then, in the box's time zone: 22:00-06:00, 12:00-13:00",
      },
    ],
  },
  {
    title: "Accuracy",
    fields: [
      { path: "a_min", label: "Accuracy floor", hint: "No camera is planned to fall below it while others are retrained. Empty: none" },
      { path: "gate_tolerance", label: "Gate tolerance", hint: "A retrained model may be so much worse than its parent and still take over" },
      { path: "rollback_margin", label: "Roll-back margin", hint: "A model that is so much worse than its parent in use is rolled back" },
    ],
  },
  {
    title: "Labels",
    fields: [
      { path: "label_budget", label: "Label budget", unit: "frames", hint: "Frames that the golden model labels, per camera and window. Empty: it finds itself" },
      { path: "held_out", label: "Held out", hint: "Latest part of the labelled frames, kept for judging a retrained model" },
      { path: "exemplars", label: "Exemplars", unit: "frames", hint: "Older frames kept per camera so that nothing is forgotten" },
    ],
  },
  {
    title: "What the device spends on it",
    fields: [
      { path: "groups", label: "Retrain several cameras as one", hint: "Cameras of one detector share a retraining where the plan gains by it. Each is judged on its own pictures." },
      { path: "golden_share", label: "Share for labelling", hint: "Of the device, always kept for the golden model. Empty: it finds itself" },
      { path: "evaluation_share", label: "Share for measuring", hint: "Of the device, for measuring windows and exemplars. Empty: it finds itself" },
      { path: "profiling_budget", label: "Profiling budget", hint: "Part of a window's device time for trying ways to retrain. Empty: it finds itself" },
      { path: "delta", label: "Smallest step of shares", hint: "Shares are planned in multiples of it" },
    ],
  },
  {
    title: "Ways to retrain that are considered",
    folded: true,
    fields: [
      { path: "space.epochs", label: "Epochs", hint: "A list: 4, 10, 20" },
      { path: "space.batch_sizes", label: "Batch sizes" },
      { path: "space.layers", label: "Layers that are trained" },
      { path: "space.data_fractions", label: "Parts of the data" },
      { path: "space.learning_rates", label: "Learning rates" },
      { path: "space.last_layer_widths", label: "Widths of a hidden last layer", hint: "0: none" },
    ],
  },
];
const FIELDS = GROUPS.flatMap((g) => g.fields);

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  if (typeof value === "boolean") return value ? "on" : "off";
  return value === null || value === undefined || value === "" ? "none" : String(value);
}

export function RetrainingSection(props: SectionProps) {
  const { value, error, again } = useAsked<Retraining>("/retraining", props.known.overview?.window.number);
  const [saved, setSaved] = useState<Retraining | null>(null);
  if (value === null) return error === null ? <Loading /> : <ErrorBox what="The settings could not be loaded" error={error} onRetry={again} />;
  // The answer to a change is newer than what was asked before it, until the next window begins.
  const newest = saved !== null && saved.next_boundary_utc_s >= value.next_boundary_utc_s ? saved : value;
  return <RetrainingForm {...props} retraining={newest} onSaved={setSaved} />;
}

function RetrainingForm({ root, me, now_s, retraining, onSaved }: SectionProps & { retraining: Retraining; onSaved: (r: Retraining) => void }) {
  const form = useForm("retraining", retraining.next);
  const changeable = may(me, "operator") && seesAll(me);
  const pending = patchOf(retraining.current, retraining.next);
  const waiting = FIELDS.filter((f) => JSON.stringify(valueAt(retraining.current, f.path)) !== JSON.stringify(valueAt(retraining.next, f.path)));
  const policy = String(form.draft["policy"]);
  const groups = GROUPS.map((g) => ({
    ...g,
    fields: g.fields.map((f) => (f.path === "policy" && POLICIES[policy] ? { ...f, hint: `${String(f.hint)}. ${POLICIES[policy]}.` } : f)),
  }));
  const boundary = retraining.next_boundary_utc_s;
  const when = `${clock(boundary)} (in ${left(boundary - now_s)})`;

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await form.save((_, patch) => ask<Retraining>("/retraining", "PATCH", patch));
    if (answer === undefined) return;
    onSaved(answer);
    toast(`Saved. Takes effect at ${clock(answer.next_boundary_utc_s)}.`);
  };

  return (
    <section class="card" aria-labelledby="retraining-title">
      <div class="card-head">
        <h2 id="retraining-title">Retraining windows</h2>
      </div>
      <div class="effect" role="status">
        {Object.keys(pending).length === 0 ? (
          <p class="quiet">Changes take effect when the next window begins, at {when}.</p>
        ) : (
          <>
            <p>
              <strong>Takes effect at {when}:</strong>
            </p>
            <ul>
              {waiting.map((f) => (
                <li key={f.path}>
                  {f.label ?? humanised(f.path)}: {shown(valueAt(retraining.current, f.path))} → {shown(valueAt(retraining.next, f.path))}
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
      {!changeable && (
        <p class="quiet">
          {whyNot("operator")}
          {!seesAll(me) && " They concern every camera."}
        </p>
      )}
      <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
        <SchemaFields root={root} model="RetrainingSettings" form={form} groups={groups} disabled={!changeable} />
        {changeable && <SaveBar dirty={form.dirty} busy={form.busy} count={Object.keys(form.patch).length} onUndo={form.reset} />}
      </form>
    </section>
  );
}
