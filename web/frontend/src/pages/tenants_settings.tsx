/** The settings of tenants, and how tenants share the box. In force at once. */

import { useState } from "preact/hooks";

import { ask } from "../api";
import type { Me } from "../api";
import { useAsked } from "../parts/asking";
import { Confirm, Dialog } from "../parts/dialog";
import { optionsOf } from "../parts/options";
import { SaveBar } from "../parts/save_bar";
import type { Group, Json, Option, Schema, Spec } from "../parts/schema_form";
import { defaultsOf, SchemaFields, useForm, valueAt, withValue } from "../parts/schema_form";
import type { Serving } from "../parts/served";
import { ErrorBox, Loading } from "../parts/states";
import type { SharingAnswer, Tenant } from "../parts/tenants";
import { METRICS, SHARING_POLICIES, tenantName, UTILITIES } from "../parts/tenants";
import { toast } from "../parts/toasts";
import { may, seesAll, whyNot } from "../session";
import type { Known } from "../store";
import "../styles/settings.css";

const MEMBERS = ["models", "applications", "cameras"];

interface TenantProps {
  /** Null: a new one. */
  tenant: Tenant | null;
  known: Known;
  onDone: () => void;
  onClose: () => void;
}

export function TenantDialog(props: TenantProps) {
  const schema = useAsked<Schema>("/schema/site");
  const serving = useAsked<Serving>(props.known.overview?.serving ? "/serving" : null);
  const waits = schema.value === null || (props.known.overview?.serving && serving.value === null && serving.error === null);
  return (
    <Dialog title={props.tenant === null ? "Add a tenant" : `Change ${tenantName([props.tenant], props.tenant.id)}`} onClose={props.onClose} wide>
      {schema.error !== null ? (
        <ErrorBox what="The form could not be loaded" error={schema.error} onRetry={schema.again} />
      ) : waits || schema.value === null ? (
        <Loading />
      ) : (
        <TenantForm {...props} root={schema.value} serving={serving.value} />
      )}
    </Dialog>
  );
}

/** A new tenant; of cameras, where no models are served. */
function blank(root: Schema, serves: boolean): Json {
  const made: Json = { ...defaultsOf(root, "TenantSettings"), id: "" };
  return serves ? made : withValue(withValue(made, "objective.metric", "accuracy"), "objective.goal", 0.8);
}

/** Whether a tenant is one of served models; otherwise it is one of cameras. */
function ofModels(draft: Json): boolean {
  return valueAt(draft, "objective.metric") !== "accuracy";
}

/** The fields of the members. */
function membersOf({ overview }: Known, serving: Serving | null): Spec[] {
  const named = (kind: "model" | "application"): Option[] =>
    (serving?.models ?? []).filter((m) => m.kind === kind).map((m) => ({ value: m.name, label: m.name }));
  return [
    { path: "models", label: "Served models", options: named("model"), hint: "", shown: ofModels },
    {
      path: "applications",
      label: "Applications",
      options: named("application"),
      hint: "With the models that they ask.",
      shown: ofModels,
    },
    {
      path: "cameras",
      label: "Cameras",
      options: (overview?.cameras ?? []).map((c) => ({ value: c.id, label: c.name })),
      hint: "",
      shown: (draft) => !ofModels(draft),
    },
  ];
}

function groupsOf(tenant: Tenant | null, known: Known, serving: Serving | null): Group[] {
  // The tenants of all others: their members are not chosen.
  const rest = tenant?.id === "default" || tenant?.id === "default-cameras";
  return [
    {
      fields: [
        ...(tenant === null ? [{ path: "id", label: "Id", hint: "Small letters, digits, - and _; it does not change" }] : []),
        { path: "name", label: "Name", hint: "For people; empty: the id" },
      ],
    },
    {
      title: "Goal",
      fields: [
        { path: "objective.metric", label: "Measured by", options: optionsOf(METRICS), hint: "", disabled: rest },
        { path: "objective.goal", label: "Goal", unit: "of 1", hint: "The part of the requests that are answered in time, or of the answers that are right" },
        { path: "objective.utility", label: "Below the goal", options: optionsOf(UTILITIES), hint: "How much a small miss matters against a large one" },
      ],
    },
    {
      title: "Members",
      fields: rest ? [] : membersOf(known, serving),
    },
    {
      title: "Share",
      fields: [
        { path: "entitlement", label: "Entitlement", hint: "A weight: 2 beside 1 is two thirds by right." },
        { path: "floor", label: "Floor", unit: "of the device", hint: "It never has less." },
        { path: "declared_demand", label: "Says to need", unit: "of the device", hint: "Counts while nothing was measured. Empty: not said" },
        {
          path: "proxy_utilisation",
          label: "Shall use",
          unit: "of its share",
          hint: "While nothing was measured and there is no profile, its share follows what its workers use. 0.1 to 1; empty: it does not",
        },
      ],
    },
  ];
}

function TenantForm({ root, tenant, known, serving, onDone, onClose }: TenantProps & { root: Schema; serving: Serving | null }) {
  const [first] = useState<Json>(() => tenant?.settings ?? blank(root, serving !== null));
  const form = useForm("tenant", first);
  // Members of the other kind are not kept: the server would refuse them.
  const shaped = {
    ...form,
    change: (path: string, value: unknown): void => {
      if (path !== "objective.metric") form.change(path, value);
      else form.replace(MEMBERS.reduce((draft, field) => withValue(draft, field, []), withValue(form.draft, path, value)));
    },
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await form.save((draft, patch) =>
      tenant === null ? ask<Tenant>("/tenants", "POST", draft) : ask<Tenant>(`/tenants/${encodeURIComponent(tenant.id)}`, "PATCH", patch),
    );
    if (answer === undefined) return;
    toast(tenant === null ? `Tenant ${answer.name || answer.id} added` : `Tenant ${answer.name || answer.id} changed`);
    onDone();
    onClose();
  };

  return (
    <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
      <SchemaFields root={root} model="TenantSettings" form={shaped} groups={groupsOf(tenant, known, serving)} />
      <p class="quiet small">In force at once, and kept over restarts. With other members or another goal, what was learned is forgotten.</p>
      <div class="actions end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button class="primary" type="submit" disabled={form.busy || (tenant !== null && !form.dirty)}>
          {form.busy ? "Saving…" : tenant === null ? "Add the tenant" : "Save"}
        </button>
      </div>
    </form>
  );
}

interface RemoveProps {
  tenant: Tenant;
  tenants: Tenant[];
  onDone: () => void;
  onClose: () => void;
}

export function RemoveTenant({ tenant, tenants, onDone, onClose }: RemoveProps) {
  const name = tenantName(tenants, tenant.id);
  return (
    <Confirm
      title={`Remove ${name}?`}
      action="Remove"
      danger
      onClose={onClose}
      onConfirm={async () => {
        await ask(`/tenants/${encodeURIComponent(tenant.id)}`, "DELETE");
        toast(`Tenant ${name} removed`);
        onDone();
      }}
    >
      <p>Its members belong to the tenant of all others from now on. Models and cameras go on working; only their share changes.</p>
    </Confirm>
  );
}

const SHARING_GROUPS: Group[] = [
  {
    fields: [
      { path: "policy", label: "Policy", options: optionsOf(SHARING_POLICIES), hint: "Whose share moves where. “What if” above replays the last day under another one." },
      { path: "interval_s", label: "Interval", unit: "s", hint: "So often the shares of serving tenants are decided. Cameras move when a window ends." },
      { path: "largest_step", label: "Largest step", unit: "of the device", hint: "No tenant gets or gives more in one decision, but for raises to a floor, to the need of a plan or to an entitlement" },
      { path: "explore", label: "Explore", unit: "of the entitlement", hint: "So far below its entitlement may be a tenant that misses its goal, or of which nothing is known" },
      { path: "dwell_s", label: "Rest", unit: "s", hint: "Least time between two moves of a tenant" },
      { path: "hysteresis", label: "Smallest move", unit: "of the device", hint: "Smaller ones are not made" },
      { path: "missed_minutes", label: "Alarm after", unit: "min", hint: "A goal missed for so long at the entitlement raises an alarm, where a rule says so" },
    ],
  },
];

interface SharingProps {
  sharing: SharingAnswer;
  me: Me;
  onChanged: (sharing: SharingAnswer) => void;
}

export function SharingCard(props: SharingProps) {
  const schema = useAsked<Schema>("/schema/site");
  return (
    <section class="card" aria-labelledby="sharing-title">
      <h2 id="sharing-title">How the box is shared</h2>
      {schema.value !== null ? (
        <SharingForm {...props} root={schema.value} />
      ) : schema.error === null ? (
        <Loading />
      ) : (
        <ErrorBox what="The settings could not be loaded" error={schema.error} onRetry={schema.again} />
      )}
    </section>
  );
}

function SharingForm({ root, sharing, me, onChanged }: SharingProps & { root: Schema }) {
  const form = useForm("sharing", sharing.settings);
  const allowed = may(me, "operator") && seesAll(me);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await form.save((_, patch) => ask<SharingAnswer>("/sharing", "PATCH", patch));
    if (answer === undefined) return;
    onChanged(answer);
    toast("Saved: in force at once");
  };
  return (
    <>
      {!allowed && <p class="quiet about">{may(me, "operator") ? "Only users who may see every camera may change this." : whyNot("operator")}</p>}
      <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
        <SchemaFields root={root} model="SharingSettings" form={form} groups={SHARING_GROUPS} disabled={!allowed} />
        {allowed && <SaveBar dirty={form.dirty} busy={form.busy} count={Object.keys(form.patch).length} onUndo={form.reset} />}
      </form>
    </>
  );
}
