/** The role of a user or a token, and which cameras and tenants they see. */

import type { Camera, Problem, Role } from "../api";
import { SwitchField } from "./form";
import { Choices } from "./schema_form";
import type { Tenant } from "./tenants";
import { tenantName } from "./tenants";

export const ROLES: Role[] = ["viewer", "operator", "admin"];
const NAMES: Record<Role, string> = { viewer: "Viewer", operator: "Operator", admin: "Administrator" };
export const ROLE_WORDS: Record<Role, string> = {
  viewer: `${NAMES.viewer}: sees everything, changes nothing`,
  operator: `${NAMES.operator}: runs it day by day – models, rules, retraining, alarms`,
  admin: `${NAMES.admin}: cameras, users, outputs, secrets, too`,
};

/** "Viewer". */
export function roleName(role: Role): string {
  return NAMES[role];
}

/** Names of the cameras of a limit. */
export function limitWords(limit: string[] | null, cameras: Camera[]): string {
  if (limit === null) return "all";
  return limit.map((id) => cameras.find((c) => c.id === id)?.name ?? id).join(", ") || "none";
}

interface LimitProps {
  /** Null: all. */
  value: string[] | null;
  problems: Problem[];
  disabled?: boolean;
  hint?: string;
  onChange: (value: string[] | null) => void;
}

interface OfProps extends LimitProps {
  of: "cameras" | "tenants";
  title: string;
  options: { value: string; label: string }[];
}

function Limit({ of, title, options, value, problems, disabled = false, hint, onChange }: OfProps) {
  return (
    <>
      <SwitchField
        label={`Only some ${of}`}
        path={of === "cameras" ? "some" : `some-${of}`}
        problems={[]}
        value={value !== null}
        disabled={disabled}
        {...(hint ? { hint } : {})}
        onChange={(some) => onChange(some ? [] : null)}
      />
      {value !== null && (
        <Choices label={title} path={of} problems={problems} options={options} value={value} disabled={disabled} onChange={onChange} />
      )}
    </>
  );
}

export function CamerasLimit({ cameras, ...limit }: LimitProps & { cameras: Camera[] }) {
  return <Limit of="cameras" title="Cameras" options={cameras.map((c) => ({ value: c.id, label: c.name }))} {...limit} />;
}

export function TenantsLimit({ tenants, ...limit }: LimitProps & { tenants: Tenant[] }) {
  // One that is limited to a tenant that is gone stays so.
  const gone = (limit.value ?? []).filter((id) => tenants.every((t) => t.id !== id));
  const options = [...tenants.map((t) => t.id), ...gone].map((id) => ({ value: id, label: tenantName(tenants, id) }));
  return <Limit of="tenants" title="Tenants" options={options} {...limit} />;
}
