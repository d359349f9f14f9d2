/** Rules: when there is an alarm. */

import { useState } from "preact/hooks";

import type { RuleSettings } from "../answers";
import type { CameraRecord } from "../api";
import { ask } from "../api";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm } from "../parts/dialog";
import { optionsOf } from "../parts/options";
import type { Group, Json, Option } from "../parts/schema_form";
import { SchemaFields, defaultsOf, useForm } from "../parts/schema_form";
import { SEVERITIES } from "../parts/severity";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { toast } from "../parts/toasts";
import { go, href } from "../router";
import { may, seesAll, whyNot } from "../session";
import type { SectionProps } from "./page";

type Kind = RuleSettings["kind"];

const KINDS: Record<Kind, string> = {
  object: "An object is seen",
  accuracy: "A camera's accuracy is too low",
  camera_lost: "A camera is lost",
  disk: "The disk is nearly full",
  roll_back: "A model was rolled back",
  slo: "A served model misses its objective",
  tenant: "A tenant misses its goal",
  stranger: "The fleet refused a stranger",
  crowd: "Too many objects at once",
  movement: "An object goes from zone to zone",
  unusual: "An hour's count is unusual",
};
const OF_KIND: Record<string, Kind[]> = {
  cameras: ["object", "accuracy", "camera_lost", "roll_back", "crowd", "movement", "unusual"],
  classes: ["object", "crowd", "movement", "unusual"],
  from_zones: ["movement"],
  zones: ["object", "crowd", "movement"],
  lines: ["unusual"],
  above: ["crowd"],
  factor: ["unusual"],
  dwell_s: ["object"],
  clip: ["object", "crowd", "movement"],
  below: ["accuracy", "disk", "slo"],
  after_s: ["camera_lost", "slo", "crowd"],
};

function suits(field: string, draft: Json): boolean {
  return OF_KIND[field]?.includes(draft["kind"] as Kind) ?? true;
}

const BELOW: Partial<Record<Kind, string>> = {
  accuracy: "Alarm when a window's accuracy is below it",
  disk: "Alarm when so much of the disk is free, or less. Empty: 0.05",
  slo: "Alarm when fewer requests than this part are answered in time. Empty: 0.95",
};

function groups(draft: Json, cameras: CameraRecord[], isNew: boolean): Group[] {
  const chosen = draft["cameras"] as string[] | undefined;
  const meant = chosen && chosen.length > 0 ? cameras.filter((c) => chosen.includes(c.id)) : cameras;
  const options = (names: string[]): Option[] => [...new Set(names)].sort().map((n) => ({ value: n, label: n }));
  const kind = draft["kind"] as Kind;
  return [
    {
      fields: [
        { path: "kind", label: "When", hint: "", options: optionsOf(KINDS) },
        ...(isNew ? [{ path: "id", label: "Id", hint: "Small letters, digits, - and _; it does not change" }] : []),
        { path: "name", label: "Name", hint: "For people; empty: the id" },
        { path: "enabled", label: "On" },
        { path: "severity", label: "How bad", options: Object.entries(SEVERITIES).map(([value, [label]]) => ({ value, label })) },
      ],
    },
    {
      title: "What it looks at",
      fields: [
        { path: "cameras", label: "Cameras", hint: "None chosen: all.", options: cameras.map((c) => ({ value: c.id, label: c.settings.name || c.id })), shown: (d) => suits("cameras", d) },
        { path: "classes", label: "Objects", hint: "None chosen: all.", options: options(meant.flatMap((c) => c.settings.classes)), shown: (d) => suits("classes", d) },
        {
          path: "from_zones",
          label: "From",
          hint: "None chosen: from any zone.",
          options: options(meant.flatMap((c) => c.settings.zones.map((z) => z.name))),
          shown: (d) => suits("from_zones", d),
        },
        {
          path: "zones",
          label: kind === "movement" ? "To" : "Zones",
          hint: kind === "movement" ? "None chosen: to any zone. One of From and To is needed." : "None chosen: anywhere in the picture. Zones are drawn in a camera's settings.",
          options: options(meant.flatMap((c) => c.settings.zones.map((z) => z.name))),
          shown: (d) => suits("zones", d),
        },
        {
          path: "lines",
          label: "Lines",
          hint: "None chosen: all. Each direction is looked at by itself.",
          options: options(meant.flatMap((c) => c.settings.lines.map((l) => l.name))),
          shown: (d) => suits("lines", d),
        },
        { path: "above", label: "More than", hint: "Alarm when more objects than that are there at once", shown: (d) => suits("above", d) },
        { path: "factor", label: "Far", unit: "spreads", hint: "So many times the usual spread away from the usual count. Empty: 4", shown: (d) => suits("factor", d) },
        { path: "dwell_s", label: "Stays for", unit: "s", hint: "There for so long at least", shown: (d) => suits("dwell_s", d) },
        { path: "clip", label: "Keep a clip", hint: "Video from some seconds before each alarm to some after it", shown: (d) => suits("clip", d) },
        { path: "below", label: "Below", hint: BELOW[kind] ?? "", shown: (d) => suits("below", d) },
        { path: "after_s", label: "For", unit: "s", hint: `It must be so for so long. Empty: ${kind === "slo" ? 10 : 60}`, shown: (d) => suits("after_s", d) },
      ],
    },
    {
      title: "Not too often",
      fields: [
        { path: "quiet_hours", label: "Quiet hours", hint: "No new alarm then, in the box's time zone: 22:00-06:00" },
        { path: "min_interval_s", label: "Pause", unit: "s", hint: "No new alarm of this rule and camera sooner after the one before" },
      ],
    },
  ];
}

export function RulesSection(props: SectionProps) {
  const { me, rest } = props;
  const rules = useAsked<RuleSettings[]>("/rules");
  const cameras = useAsked<CameraRecord[]>("/cameras");
  const changeable = may(me, "operator") && seesAll(me);
  const [deleting, setDeleting] = useState<RuleSettings | null>(null);
  if (rules.value === null) return rules.error === null ? <Loading /> : <ErrorBox what="The rules could not be loaded" error={rules.error} onRetry={rules.again} />;
  const editing = rest[0] === undefined ? undefined : rules.value.find((r) => r.id === rest[0]);
  const back = (): void => {
    rules.again();
    go(href("settings", "rules"));
  };
  if (rest[0] === "new" || editing !== undefined) {
    return <RuleForm key={rest[0]} {...props} rule={editing ?? null} cameras={cameras.value ?? []} changeable={changeable} onDone={back} />;
  }
  return (
    <section class="card" aria-labelledby="rules-title">
      <div class="card-head">
        <h2 id="rules-title">Rules</h2>
        {changeable && (
          <a class="button primary" href={href("settings", "rules", "new")}>
            Add a rule
          </a>
        )}
      </div>
      <p class="quiet lead">
        A rule says when there is an alarm. Alarms are shown on the page (<a href={href("system", "alarms")}>alarms</a>) and sent to the outputs.
        {!changeable && ` ${whyNot("operator")}`}
      </p>
      {rest[0] !== undefined && <p class="problem">There is no rule {rest[0]}.</p>}
      {rules.value.length === 0 ? (
        <Empty title="No rule yet">Without rules there are no alarms.</Empty>
      ) : (
        <RulesTable rules={rules.value} cameras={cameras.value ?? []} onDelete={changeable ? setDeleting : null} />
      )}
      {deleting && (
        <Confirm
          title={`Delete the rule ${deleting.name || deleting.id}?`}
          action="Delete"
          danger
          onClose={() => setDeleting(null)}
          onConfirm={async () => {
            await ask(`/rules/${encodeURIComponent(deleting.id)}`, "DELETE");
            toast(`Rule ${deleting.name || deleting.id} deleted`);
            rules.again();
          }}
        >
          <p>There are no more alarms of it. Its past alarms stay. To pause it, switch it off instead.</p>
        </Confirm>
      )}
    </section>
  );
}

interface TableProps {
  rules: RuleSettings[];
  cameras: CameraRecord[];
  /** Null: the user may not change rules. */
  onDelete: ((rule: RuleSettings) => void) | null;
}

function RulesTable({ rules, cameras, onDelete }: TableProps) {
  const named = (id: string): string => cameras.find((c) => c.id === id)?.settings.name || id;
  return (
    <Table
      caption="Rules"
      rows={rules}
      rowKey={(r) => r.id}
      columns={[
        { key: "name", title: "Rule", cell: (r) => <a href={href("settings", "rules", r.id)}>{r.name || r.id}</a> },
        { key: "kind", title: "When", cell: (r) => <span>{inWords(r)}</span> },
        { key: "cameras", title: "Cameras", cell: (r) => (suits("cameras", r) ? r.cameras.map(named).join(", ") || "all" : <span class="quiet">–</span>) },
        { key: "severity", title: "How bad", cell: (r) => <Badge tone={SEVERITIES[r.severity]?.[1] ?? "info"}>{SEVERITIES[r.severity]?.[0] ?? r.severity}</Badge> },
        { key: "state", title: "State", cell: (r) => (r.enabled ? <Badge tone="good">On</Badge> : <Badge tone="off">Off</Badge>) },
        {
          key: "actions",
          title: "Actions",
          cell: (r) =>
            onDelete ? (
              <span class="row-actions">
                <a class="button" href={href("settings", "rules", r.id)} aria-label={`Change the rule ${r.name || r.id}`}>
                  Change
                </a>
                <button type="button" aria-label={`Delete the rule ${r.name || r.id}`} onClick={() => onDelete(r)}>
                  Delete
                </button>
              </span>
            ) : (
              <span class="quiet">–</span>
            ),
        },
      ]}
    />
  );
}

function inWords(rule: RuleSettings): string {
  const number = (value: number | null, otherwise: number): string => `${Math.round(1000 * (value ?? otherwise)) / 10} %`;
  switch (rule.kind) {
    case "object":
      return [
        rule.classes.join(", ") || "Any object",
        rule.zones.length > 0 ? `in ${rule.zones.join(", ")}` : "",
        rule.dwell_s > 0 ? `for ${rule.dwell_s} s` : "",
      ]
        .filter(Boolean)
        .join(" ");
    case "accuracy":
      return `Accuracy of a window below ${number(rule.below, 0)}`;
    case "camera_lost":
      return `No pictures for ${rule.after_s ?? 60} s`;
    case "disk":
      return `Less than ${number(rule.below, 0.05)} of the disk free`;
    case "slo":
      return `Less than ${number(rule.below, 0.95)} answered in time for ${rule.after_s ?? 10} s`;
    default:
      return KINDS[rule.kind] ?? rule.kind;
  }
}

interface FormProps extends SectionProps {
  rule: RuleSettings | null;
  cameras: CameraRecord[];
  changeable: boolean;
  onDone: () => void;
}

function RuleForm({ root, rule, cameras, changeable, onDone }: FormProps) {
  const [first] = useState<Json>(() => rule ?? { ...defaultsOf(root, "RuleSettings"), kind: "object", id: "" });
  const form = useForm("rule", first);
  // Fields of another kind are not kept: the server would refuse them.
  const shaped = { ...form, change: (path: string, value: unknown): void => {
    if (path !== "kind") {
      form.change(path, value);
      return;
    }
    const blank = defaultsOf(root, "RuleSettings");
    const next: Json = { ...form.draft, kind: value };
    for (const field of Object.keys(OF_KIND)) if (!suits(field, next)) next[field] = blank[field] ?? null;
    form.replace(next);
  } };

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await form.save((draft, patch) => (rule === null ? ask<RuleSettings>("/rules", "POST", draft) : ask<RuleSettings>(`/rules/${encodeURIComponent(rule.id)}`, "PATCH", patch)));
    if (answer === undefined) return;
    toast(rule === null ? `Rule ${answer.name || answer.id} added` : `Rule ${answer.name || answer.id} changed`);
    onDone();
  };

  return (
    <section class="card" aria-labelledby="rule-title">
      <div class="card-head">
        <h2 id="rule-title">{rule === null ? "Add a rule" : `Rule ${rule.name || rule.id}`}</h2>
        <a href={href("settings", "rules")}>All rules</a>
      </div>
      {!changeable && <p class="quiet">{whyNot("operator")}</p>}
      <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
        <SchemaFields root={root} model="RuleSettings" form={shaped} groups={groups(form.draft, cameras, rule === null)} disabled={!changeable} />
        {changeable && (
          <div class="actions">
            <button class="primary" type="submit" disabled={form.busy || (rule !== null && !form.dirty)}>
              {form.busy ? "Saving…" : rule === null ? "Add the rule" : "Save"}
            </button>
            <a class="button" href={href("settings", "rules")}>
              Cancel
            </a>
          </div>
        )}
      </form>
    </section>
  );
}
