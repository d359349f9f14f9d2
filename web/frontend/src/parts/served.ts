/** Served models as GET /serving tells them. Times in milliseconds, rates in requests a second, shares of one device. */

import type {
  AdmissionAnswer,
  ExecutorAnswer,
  GpuletAnswer,
  ModelDemand,
  PairAnswer,
  ServedModelAnswer,
  ServingPlanning,
} from "../answers";
import { useAsked } from "./asking";
import type { Option, Schema } from "./schema_form";
import { schemaAt } from "./schema_form";

export type { Serving } from "../answers";

export type Admission = AdmissionAnswer;
export type Demand = ModelDemand;
export type Executor = ExecutorAnswer;
export type GpuLet = GpuletAnswer;
export type ModelState = ServedModelAnswer["state"];
export type Pair = PairAnswer;
export type Planning = ServingPlanning;
export type ServedModel = ServedModelAnswer;

/** The ways to divide an application's objective over its stages, in words. */
export const SPLIT_POLICIES: Record<Planning["split"], string> = {
  joint: "Jointly with the gpu-lets: at the least share",
  even: "Evenly: for comparison",
};

/** The latencies that plans reckon with, in words. */
export const LATENCIES: Record<Planning["latencies"], string> = {
  watched: "As live batches take them",
  measured: "As they were measured: for comparison",
};

/** Serving policies in words; one that is not here is shown by its name. */
export const SERVING_POLICIES: Record<string, string> = {
  mosaic: "Mosaic: the smallest share that holds every objective",
  elastic: "Elastic: at most two gpu-lets on a device, as published",
  "elastic-no-interference": "Elastic, blind to interference",
  squishy: "Squishy: whole devices, shared in time only",
  "guided-self-tuning": "Guided self-tuning: one gpu-let for each model",
  ideal: "Ideal: searches all splits (small sites)",
};

/** The serving policies that may be chosen, as the schema of the settings lists them. */
export function useServingPolicies(): Option[] {
  const root = useAsked<Schema>("/schema/site").value;
  const names = root === null ? [] : (schemaAt(root, "ServingPlanning", "policy").schema.enum ?? []);
  return names.map(String).map((value) => ({ value, label: SERVING_POLICIES[value] ?? value }));
}

export function modelColour(names: string[], name: string): string {
  return `--camera-${Math.max(0, names.indexOf(name)) % 8}`;
}

export function rate(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toFixed(1);
}

export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return `${value >= 100 ? Math.round(value) : value.toFixed(1)}\u00a0ms`;
}
