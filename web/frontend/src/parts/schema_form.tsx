/** One form for all settings: its controls, ranges and words come from the JSON schema that the server checks with. */

import type { ComponentChildren, RefObject } from "preact";
import { useRef, useState } from "preact/hooks";

import type { JsonSchema } from "../answers";
import type { Problem } from "../api";
import { problemsOf, words } from "../api";
import type { FieldProps, Tied } from "./form";
import { Field, FormProblems, SwitchField, belongs, typedNumber, useCheck } from "./form";
import { Unsaved } from "./unsaved";

export type Json = Record<string, unknown>;

export type Schema = JsonSchema;

export interface Option {
  value: string;
  label: string;
}

/** A field of the form; the schema gives the rest. */
export interface Spec {
  /** Where the value is: "inference.frame_rates". */
  path: string;
  label?: string;
  hint?: ComponentChildren;
  unit?: string;
  /** The choices, where the schema does not say them. */
  options?: Option[];
  /** Suggestions while one types. */
  suggestions?: string[];
  control?: "password" | "lines" | "choices";
  disabled?: boolean;
  /** Fields that make no sense with the others' values are not shown. */
  shown?: (draft: Json) => boolean;
  /** A field that is drawn otherwise: no part of what the schema describes. */
  render?: (problems: Problem[]) => ComponentChildren;
}

export interface Group {
  title?: string;
  /** Folded away at first: rarely changed fields. */
  folded?: boolean;
  fields: Spec[];
}

/** The schema with its references followed; `optional`: null is allowed, too. */
function resolved(root: Schema, schema: Schema): { schema: Schema; optional: boolean } {
  let found = schema;
  let optional = false;
  for (let depth = 0; depth < 8; depth += 1) {
    if (found.$ref) {
      const { $ref, ...own } = found;
      found = { ...(root.$defs?.[$ref.split("/").at(-1) ?? ""] ?? {}), ...own };
    } else if (found.anyOf) {
      const { anyOf, ...own } = found;
      optional ||= anyOf.some((a) => a.type === "null");
      found = { ...(anyOf.find((a) => a.type !== "null") ?? {}), ...own };
    } else break;
  }
  return { schema: found, optional };
}

/** The schema of the field at `path` of the model called `model`; empty if there is none. */
export function schemaAt(root: Schema, model: string, path: string): { schema: Schema; optional: boolean } {
  let at = resolved(root, { $ref: `#/$defs/${model}` });
  if (path !== "") {
    for (const name of path.split(".")) {
      const inner = at.schema.properties?.[name];
      if (inner === undefined) return { schema: {}, optional: false };
      at = resolved(root, inner);
    }
  }
  return at;
}

/** The first values of a model's fields. Fields that are required and have no default are left out. */
export function defaultsOf(root: Schema, model: string): Json {
  const out: Json = {};
  for (const [name, inner] of Object.entries(schemaAt(root, model, "").schema.properties ?? {})) {
    const { schema } = resolved(root, inner);
    if (schema.default !== undefined) out[name] = structuredClone(schema.default);
    else if (schema.type === "boolean") out[name] = false;
  }
  return out;
}

export function valueAt(draft: Json, path: string): unknown {
  return path.split(".").reduce<unknown>((at, name) => (at as Json | undefined)?.[name], draft);
}

export function withValue(draft: Json, path: string, value: unknown): Json {
  const [name = "", ...rest] = path.split(".");
  return { ...draft, [name]: rest.length === 0 ? value : withValue((draft[name] as Json | undefined) ?? {}, rest.join("."), value) };
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A JSON merge patch that makes `before` into `after`. */
export function patchOf(before: Json, after: Json): Json {
  const out: Json = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [a, b] = [before[name], after[name]];
    if (JSON.stringify(a) === JSON.stringify(b)) continue;
    out[name] = b === undefined ? null : isObject(a) && isObject(b) ? patchOf(a, b) : b;
  }
  return out;
}

/** An objection to an item of a list that is typed as text stands at the list, and names the item. */
function placed(problem: Problem): Problem {
  const item = /^([\w.]+)\[\d+\]$/.exec(problem.path);
  if (item && (typeof problem.given === "string" || typeof problem.given === "number")) {
    return { ...problem, path: item[1]!, allowed: `${problem.allowed} (not ${problem.given})` };
  }
  return problem;
}

/** All of them, placed; a problem of a list is left out where its items have some of their own. */
function allPlaced(problems: Problem[]): Problem[] {
  return problems.filter((p) => !problems.some((o) => o.path.startsWith(`${p.path}[`))).map(placed);
}

export interface Form {
  draft: Json;
  dirty: boolean;
  /** Something was typed since the last saving. */
  unsaved: boolean;
  /** The body of a change: only the changed fields. */
  patch: Json;
  problems: Problem[];
  failure: string;
  busy: boolean;
  place: RefObject<HTMLFormElement | null>;
  change: (path: string, value: unknown) => void;
  replace: (draft: Json) => void;
  reset: () => void;
  object: Refusal["object"];
  /** Send it; the answer, or undefined when it was refused (the form shows why). */
  save: <T>(send: (draft: Json, patch: Json) => Promise<T>) => Promise<T | undefined>;
}

function asItIs(draft: Json): Json {
  return draft;
}

interface Refusal {
  problems: Problem[];
  /** In words, where nothing is wrong with the fields. */
  failure: string;
  /** Show the mistakes in the values that were sent. */
  object: (error: unknown) => void;
  /** Forget all, or what was wrong at `path`. */
  forget: (path?: string) => void;
}

/** The server's objections to what was sent; the first field that has one gets the focus. */
function useRefusal(place: RefObject<HTMLFormElement | null>): Refusal {
  const [problems, setProblems] = useState<Problem[]>([]);
  const [failure, setFailure] = useState("");
  const object = (error: unknown): void => {
    const said = allPlaced(problemsOf(error));
    setProblems(said);
    setFailure(said.length > 0 ? "" : words(error));
    requestAnimationFrame(() => place.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
  };
  const forget = (path?: string): void => {
    setProblems(path === undefined ? [] : problems.filter((p) => !belongs(p.path, path)));
    setFailure("");
  };
  return { problems, failure, object, forget };
}

/** A draft of `initial`, checked by the server as one types (`kind` of POST /check; null: only on saving). `shape`
 * makes what is checked of the draft, where that is less than all of it. */
export function useForm(kind: string | null, initial: Json, shape: (draft: Json) => Json = asItIs): Form {
  const base = JSON.stringify(initial);
  const [kept, setKept] = useState<{ base: string; draft: Json; touched: string[] }>({ base, draft: initial, touched: [] });
  const [busy, setBusy] = useState(false);
  const place = useRef<HTMLFormElement>(null);
  const refusal = useRefusal(place);
  // Settings that another user saved meanwhile come in as long as nothing was typed.
  const fresh = kept.base !== base && kept.touched.length === 0;
  const { draft, touched } = fresh ? { draft: initial, touched: [] as string[] } : kept;
  const patch = patchOf(initial, draft);
  const dirty = Object.keys(patch).length > 0;
  const [found] = useCheck(kind ?? "", kind !== null && dirty ? shape(draft) : null);
  const typed = allPlaced(found).filter((p) => touched.some((t) => belongs(p.path, t)));

  return {
    draft,
    dirty,
    unsaved: dirty && touched.length > 0,
    patch,
    problems: [...refusal.problems.filter((r) => !typed.some((p) => p.path === r.path)), ...typed],
    failure: refusal.failure,
    busy,
    place,
    change: (path, value) => {
      setKept({ base, draft: withValue(draft, path, value), touched: touched.includes(path) ? touched : [...touched, path] });
      refusal.forget(path);
    },
    replace: (next) => setKept({ base, draft: next, touched: [...new Set([...touched, ...Object.keys(patchOf(draft, next))])] }),
    reset: () => {
      setKept({ base, draft: initial, touched: [] });
      refusal.forget();
    },
    object: refusal.object,
    save: async (send) => {
      setBusy(true);
      refusal.forget();
      try {
        const answer = await send(draft, patch);
        setKept((before) => ({ ...before, touched: [] }));
        return answer;
      } catch (error) {
        refusal.object(error);
        return undefined;
      } finally {
        setBusy(false);
      }
    },
  };
}

interface Props {
  root: Schema;
  /** Name of the model in the schema: "CameraSettings". */
  model: string;
  form: Form;
  groups: Group[];
  disabled?: boolean;
  /** Something beside the form's own fields is not saved yet. */
  unsaved?: boolean;
}

/** The fields, without form element and buttons. */
export function SchemaFields({ root, model, form, groups, disabled = false, unsaved = false }: Props) {
  const paths = groups.flatMap((g) => g.fields.filter((f) => f.shown?.(form.draft) ?? true).map((f) => f.path));
  return (
    <>
      {groups.map((group) => {
        const fields = group.fields.filter((f) => f.shown?.(form.draft) ?? true);
        if (fields.length === 0) return null;
        const inner = fields.map((spec) => spec.render?.(form.problems) ?? (
          <SchemaField key={spec.path} root={root} model={model} spec={spec} form={form} disabled={disabled || spec.disabled === true} />
        ));
        const wrong = fields.some((f) => form.problems.some((p) => p.path === f.path || p.path.startsWith(`${f.path}.`)));
        if (group.folded) {
          return (
            <details key={group.title} class="form-group" open={wrong || undefined}>
              <summary>{group.title}</summary>
              {inner}
            </details>
          );
        }
        return (
          <fieldset key={group.title ?? fields[0]?.path} class="form-group">
            {group.title && <legend>{group.title}</legend>}
            {inner}
          </fieldset>
        );
      })}
      <FormProblems problems={form.problems} fields={paths} failure={form.failure} />
      <Unsaved when={(form.unsaved || unsaved) && !disabled} />
    </>
  );
}

function range(schema: Schema): string {
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const from = schema.exclusiveMinimum !== undefined ? `above ${schema.exclusiveMinimum}` : `${low}`;
  if (low !== undefined && high !== undefined) return `${from} to ${schema.exclusiveMaximum !== undefined ? "below " : ""}${high}`;
  if (low !== undefined) return schema.exclusiveMinimum !== undefined ? from : `at least ${low}`;
  return high !== undefined ? `at most ${high}` : "";
}

function sentence(text: string): string {
  // An address or a name of a field is no beginning of a sentence.
  return text === "" || /^[\w+.-]*(:\/\/|_)/.test(text) ? text : text[0]!.toUpperCase() + text.slice(1);
}

export function humanised(name: string): string {
  return sentence((name.split(".").at(-1) ?? name).replaceAll("_", " "));
}

function shownList(value: unknown): string {
  return Array.isArray(value) ? value.join(", ") : value === null || value === undefined ? "" : String(value);
}

/** "car = auto, van" lines of a mapping of names to lists. */
function shownLines(value: unknown): string {
  if (!isObject(value)) return value === null || value === undefined ? "" : String(value);
  return Object.entries(value)
    .map(([k, v]) => `${k} = ${shownList(v)}`)
    .join("\n");
}

function readLines(text: string, lists: boolean): Json {
  const out: Json = {};
  for (const line of text.split("\n")) {
    const [name = "", rest = ""] = line.split(/=(.*)/s);
    if (line.trim() === "") continue;
    out[name.trim()] = lists ? parts(rest) : rest.trim();
  }
  return out;
}

function parts(text: string): string[] {
  return text
    .split(/[,\n;]/)
    .map((p) => p.trim())
    .filter((p) => p !== "");
}

/** A field with all that the schema says about it. */
interface Described {
  spec: Spec;
  schema: Schema;
  /** Null is allowed, too. */
  optional: boolean;
  /** Of a list: the schema of its items. */
  items: Schema | undefined;
  value: unknown;
  disabled: boolean;
  put: (next: unknown) => void;
}

/** Label, hint with the allowed range, unit and objections of a field. */
function fieldWords({ spec, schema, items }: Described, problems: Problem[]): Omit<FieldProps, "children"> {
  const limits = range(schema.type === "array" ? (items ?? {}) : schema);
  const about = spec.hint ?? sentence(schema.description ?? "");
  const hint =
    about || limits ? (
      <>
        {about}
        {limits && `${about ? (typeof about === "string" && /[.!?]$/.test(about) ? " " : ". ") : ""}${sentence(limits)}.`}
      </>
    ) : undefined;
  return { label: spec.label ?? humanised(spec.path), path: spec.path, problems, hint, ...(spec.unit ? { unit: spec.unit } : {}) };
}

function SchemaField({ root, model, spec, form, disabled }: { root: Schema; model: string; spec: Spec; form: Form; disabled: boolean }) {
  const { schema, optional } = schemaAt(root, model, spec.path);
  const items = schema.items ? resolved(root, schema.items).schema : undefined;
  const value = valueAt(form.draft, spec.path);
  const field: Described = { spec, schema, optional, items, value, disabled, put: (next) => form.change(spec.path, next) };
  const common = fieldWords(field, form.problems);
  const choices = spec.options ?? (items?.enum ?? schema.enum)?.map((o) => ({ value: String(o), label: String(o) }));
  if (schema.type === "boolean") return <SwitchField {...common} value={value === true} disabled={disabled} onChange={field.put} />;
  if (choices !== undefined && schema.type === "array") {
    return <Choices {...common} options={choices} value={Array.isArray(value) ? value.map(String) : []} disabled={disabled} onChange={field.put} />;
  }
  if (choices !== undefined) return <Field {...common}>{(tied) => <Select {...field} choices={choices} tied={tied} />}</Field>;
  if (spec.control === "lines" || (schema.type === "object" && schema.additionalProperties !== undefined)) {
    return <Field {...common}>{(tied) => <Lines {...field} tied={tied} />}</Field>;
  }
  return <Field {...common}>{(tied) => <Typed {...field} list={spec.suggestions ? `${model}-${spec.path}-list` : undefined} tied={tied} />}</Field>;
}

interface ControlProps extends Described {
  tied: Tied;
}

/** One of a few. */
function Select({ optional, value, disabled, put, choices, tied }: ControlProps & { choices: Option[] }) {
  return (
    <select {...tied} disabled={disabled} value={value === null || value === undefined ? "" : String(value)} onChange={(e) => put(e.currentTarget.value === "" && optional ? null : e.currentTarget.value)}>
      {(optional || value === undefined) && <option value="">{optional ? "Automatic" : "Choose…"}</option>}
      {choices.map((o) => (
        <option key={o.value} value={o.value}>
          {o.label}
        </option>
      ))}
    </select>
  );
}

/** A mapping of names, one a line. */
function Lines({ schema, value, disabled, put, tied }: ControlProps) {
  const [text, setText] = useState<string | null>(null);
  const lists = isObject(schema.additionalProperties) && (schema.additionalProperties as Schema).type === "array";
  return (
    <textarea {...tied} rows={3} disabled={disabled} spellcheck={false} value={text ?? shownLines(value)} onBlur={() => setText(null)} onInput={(e) => {
      setText(e.currentTarget.value);
      put(readLines(e.currentTarget.value, lists));
    }} />
  );
}

/** The value of a typed text, as the schema has it. */
function read({ schema, optional, items }: Described, typed: string): unknown {
  if (schema.type === "array") {
    const numbers = items?.type === "number" || items?.type === "integer";
    return parts(typed).map((p) => (numbers ? typedNumber(p) : p));
  }
  if (schema.type === "number" || schema.type === "integer") return typedNumber(typed);
  return typed === "" && optional ? null : typed;
}

/** A text, a number, or a list of either; `list`: id of the suggestions. */
function Typed({ list, tied, ...field }: ControlProps & { list: string | undefined }) {
  const { spec, schema, value, disabled, put } = field;
  const [text, setText] = useState<string | null>(null);
  const keys = schema.type === "integer" ? "numeric" : schema.type === "number" ? "decimal" : "text";
  const kind =
    spec.control === "password"
      ? ({ type: "password", autocomplete: "new-password" } as const)
      : list
        ? ({ type: "text", autocomplete: "off", list } as const)
        : ({ type: "text", autocomplete: "off" } as const);
  return (
    <>
      <input
        {...tied}
        {...kind}
        autocapitalize="none"
        spellcheck={false}
        inputMode={keys}
        disabled={disabled}
        value={text ?? shownList(value)}
        onInput={(e) => {
          setText(e.currentTarget.value);
          put(read(field, e.currentTarget.value));
        }}
        onBlur={() => setText(null)}
      />
      {list && (
        <datalist id={list}>
          {spec.suggestions?.map((s) => (
            <option key={s} value={s} />
          ))}
        </datalist>
      )}
    </>
  );
}

interface ChoicesProps {
  label: string;
  path: string;
  problems: Problem[];
  hint?: ComponentChildren;
  options: Option[];
  value: string[];
  disabled: boolean;
  onChange: (value: string[]) => void;
}

/** Several of a few: one box each. */
export function Choices({ label, path, problems, hint, options, value, disabled, onChange }: ChoicesProps) {
  const mine = problems.filter((p) => p.path === path || p.path.startsWith(`${path}[`));
  // A kept value that is no longer offered can still be taken away.
  const offered = [...options, ...value.filter((v) => !options.some((o) => o.value === v)).map((v) => ({ value: v, label: `${v} (not there)` }))];
  return (
    <fieldset class={mine.length > 0 ? "choices wrong" : "choices"}>
      <legend>{label}</legend>
      {hint && <p class="hint">{hint}</p>}
      <div class="choice-list">
        {offered.length === 0 && <span class="quiet">None to choose from.</span>}
        {offered.map((o) => (
          <label key={o.value} class="check">
            <input
              type="checkbox"
              name={path}
              disabled={disabled}
              aria-invalid={mine.length > 0}
              checked={value.includes(o.value)}
              onChange={(e) => onChange(e.currentTarget.checked ? [...value, o.value] : value.filter((v) => v !== o.value))}
            />{" "}
            {o.label}
          </label>
        ))}
      </div>
      {mine.length > 0 && (
        <div class="problem" role="alert">
          {mine.map((p) => (
            <p key={p.path}>Allowed: {p.allowed}</p>
          ))}
        </div>
      )}
    </fieldset>
  );
}
