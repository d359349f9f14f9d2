/** Fields of forms: label, hint, unit, and the server's objections where they belong. */

import type { ComponentChildren, PartialInputHTMLAttributes } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import type { CheckedSettings } from "../answers";
import type { Problem } from "../api";
import { ApiError, ask } from "../api";

/** The attributes that tie an input to its label, hint and objections. */
export interface Tied {
  id: string;
  name: string;
  "aria-describedby": string;
  "aria-invalid": boolean;
}

export interface FieldProps {
  label: string;
  /** Of the value in what is sent: "inference.frame_rates". Objections at it or below it are shown here. */
  path: string;
  problems: Problem[];
  hint?: ComponentChildren;
  unit?: string;
  children: (tied: Tied) => ComponentChildren;
}

/** Whether an objection at `path` belongs to the field at `field`. */
export function belongs(path: string, field: string): boolean {
  return path === field || path.startsWith(`${field}.`) || path.startsWith(`${field}[`);
}

export function Field({ label, path, problems, hint, unit, children }: FieldProps) {
  const id = useId();
  const mine = problems.filter((p) => belongs(p.path, path));
  const described = [hint ? `${id}-hint` : "", mine.length > 0 ? `${id}-problem` : ""].filter(Boolean).join(" ");
  return (
    <div class={mine.length > 0 ? "field wrong" : "field"}>
      <label for={id}>{label}</label>
      <span class="input">
        {children({ id, name: path, "aria-describedby": described, "aria-invalid": mine.length > 0 })}
        {unit && <span class="quiet">{unit}</span>}
      </span>
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {mine.length > 0 && (
        <div class="problem" id={`${id}-problem`} role="alert">
          {mine.map((p) => (
            <p key={p.path + p.allowed}>
              {p.path === path ? "" : `${p.path.slice(path.length).replace(/^\./, "")}: `}Allowed: {p.allowed}
            </p>
          ))}
        </div>
      )}
    </div>
  );
}

interface TextProps extends Omit<FieldProps, "children"> {
  value: string;
  onChange: (value: string) => void;
  /** Further attributes of the input: type, autocomplete, placeholder, inputMode, disabled. */
  input?: PartialInputHTMLAttributes<HTMLInputElement>;
}

export function TextField({ value, onChange, input, ...field }: TextProps) {
  return (
    <Field {...field}>
      {(tied) => {
        const all = { type: "text" as const, ...input, ...tied };
        return <input {...(all as object)} value={value} onInput={(e) => onChange(e.currentTarget.value)} />;
      }}
    </Field>
  );
}

interface SelectProps extends Omit<FieldProps, "children"> {
  value: string;
  options: readonly (string | { value: string; label: string })[];
  onChange: (value: string) => void;
  disabled?: boolean;
}

export function SelectField({ value, options, onChange, disabled = false, ...field }: SelectProps) {
  return (
    <Field {...field}>
      {(tied) => (
        <select {...tied} value={value} disabled={disabled} onChange={(e) => onChange(e.currentTarget.value)}>
          {options.map((option) => {
            const one = typeof option === "string" ? { value: option, label: option } : option;
            return (
              <option key={one.value} value={one.value}>
                {one.label}
              </option>
            );
          })}
        </select>
      )}
    </Field>
  );
}

interface SwitchProps extends Omit<FieldProps, "children"> {
  value: boolean;
  onChange: (value: boolean) => void;
  disabled?: boolean;
}

export function SwitchField({ value, onChange, disabled = false, ...field }: SwitchProps) {
  return (
    <Field {...field}>
      {(tied) => (
        <input type="checkbox" {...tied} checked={value} disabled={disabled} onChange={(e) => onChange(e.currentTarget.checked)} />
      )}
    </Field>
  );
}

/** The objections that stand at none of the form's fields, and a failure in words. */
export function FormProblems({ problems, fields, failure }: { problems: Problem[]; fields: string[]; failure?: string }) {
  const others = problems.filter((p) => !fields.some((field) => belongs(p.path, field)));
  if (others.length === 0 && !failure) return null;
  return (
    <div class="problem" role="alert">
      {failure && <p>{failure}</p>}
      {others.map((p) => (
        <p key={p.path + p.allowed}>
          {p.path}: allowed: {p.allowed}
        </p>
      ))}
    </div>
  );
}

/** A number as typed: the number, null for nothing, or the text itself so that the server says what is wrong with it. */
export function typedNumber(text: string): number | string | null {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  const number = Number(trimmed.replace(",", "."));
  return Number.isNaN(number) ? trimmed : number;
}

const CHECK_AFTER_MS = 350;

/**
 * The server's objections to a draft, asked for a moment after the typing stops: POST /check/KIND changes nothing.
 * Null `value`: nothing to check. `clear` forgets them.
 */
export function useCheck(kind: string, value: unknown): [Problem[], (problems: Problem[]) => void] {
  const [problems, setProblems] = useState<Problem[]>([]);
  const asked = useRef(0);
  const text = value === null || value === undefined ? "" : JSON.stringify(value);
  useEffect(() => {
    const number = ++asked.current;
    if (text === "") {
      setProblems([]);
      return undefined;
    }
    const timer = setTimeout(() => {
      ask<CheckedSettings>(`/check/${kind}`, "POST", JSON.parse(text))
        .then((answer) => {
          if (asked.current === number) setProblems(answer.problems);
        })
        .catch((error: unknown) => {
          if (asked.current === number && error instanceof ApiError) setProblems(error.problems);
        });
    }, CHECK_AFTER_MS);
    return () => clearTimeout(timer);
  }, [kind, text]);
  return [problems, setProblems];
}
