/** A model, an application or a camera that may be added, as typed, and the request that asks whether it fits. */

import { typedNumber } from "../parts/form";

export type Kind = "model" | "pipeline" | "camera";

/** The values of every kind are kept while another kind is chosen. */
export interface Draft {
  kind: Kind;
  model: { name: string; rate: string; slo_ms: string; priority: string };
  /** The model's latencies, read from a file. */
  table: { name: string; value: unknown } | null;
  pipeline: { name: string; rate: string; slo_ms: string };
  camera: { id: string; like: string; accuracy: string };
  /** How served models are planned; empty: as now. */
  planned: { policy: string; split: string };
  tenant: string;
}

/** Takes over some of the draft's values. */
export type Put = (part: Partial<Draft>) => void;

export function firstDraft(kind: Kind, application: string): Draft {
  return {
    kind,
    model: { name: "", rate: "", slo_ms: "", priority: "0" },
    table: null,
    pipeline: { name: application, rate: "", slo_ms: "" },
    camera: { id: "", like: "", accuracy: "" },
    planned: { policy: "", split: "" },
    tenant: "",
  };
}

/** Whether all that is needed was typed. */
export function isFilled({ kind, model, camera }: Draft, applications: string[]): boolean {
  return {
    model: [model.name, model.rate, model.slo_ms].every((v) => v.trim() !== ""),
    pipeline: applications.length > 0,
    camera: camera.id.trim() !== "",
  }[kind];
}

/** The rate as typed; one of a camera is not sent. */
export function typedRate({ kind, model, pipeline }: Draft): string {
  return kind === "pipeline" ? pipeline.rate : model.rate;
}

/** The draft with another rate. */
export function withRate({ kind, model, pipeline }: Draft, rate: string): Partial<Draft> {
  return kind === "pipeline" ? { pipeline: { ...pipeline, rate } } : { model: { ...model, rate } };
}

/** The body of POST /admission; `tenant` is empty where none was chosen. */
export function requestOf(draft: Draft, rate: string, applications: string[], tenant: string): unknown {
  return { ...candidateOf(draft, rate, applications), ...given({ ...draft.planned, tenant }) };
}

function candidateOf({ kind, model, table, pipeline, camera }: Draft, rate: string, applications: string[]): object {
  if (kind === "pipeline") {
    const [perSecond, objective] = [typedNumber(rate), typedNumber(pipeline.slo_ms)];
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
      rate: typedNumber(rate),
      slo_ms: typedNumber(model.slo_ms),
      priority: typedNumber(model.priority) ?? 0,
      ...(table === null ? {} : { table: table.value }),
    },
  };
}

/** The fields that were chosen. */
function given(chosen: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== ""));
}
