/** What a user or a token may do, and which cameras they see. */

import type { Camera, Problem, Role } from "../api";
import { SwitchField } from "./form";
import { Choices } from "./schema_form";

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

interface Props {
  cameras: Camera[];
  /** Null: all. */
  value: string[] | null;
  problems: Problem[];
  disabled?: boolean;
  hint?: string;
  onChange: (value: string[] | null) => void;
}

export function CamerasLimit({ cameras, value, problems, disabled = false, hint, onChange }: Props) {
  return (
    <>
      <SwitchField
        label="Only some cameras"
        path="some"
        problems={[]}
        value={value !== null}
        disabled={disabled}
        {...(hint ? { hint } : {})}
        onChange={(some) => onChange(some ? [] : null)}
      />
      {value !== null && (
        <Choices
          label="Cameras"
          path="cameras"
          problems={problems}
          options={cameras.map((c) => ({ value: c.id, label: c.name }))}
          value={value}
          disabled={disabled}
          onChange={onChange}
        />
      )}
    </>
  );
}
