/** Served models as GET /serving tells them. Times in milliseconds, rates in requests a second, shares of one device. */

export type ModelState = "waiting" | "checking" | "measuring" | "starting" | "serving" | "capped" | "refused" | "failed";

export interface ServedModel {
  name: string;
  kind: "model" | "application";
  state: ModelState;
  reason: string;
  version: string | null;
  slo_ms: number | null;
  priority: number;
  rate: number;
  planned_rate: number;
  held_rate: number;
  served_part: number;
  /** p50, p90, p99 of the last second with answers; empty before. */
  latency_ms: number[];
  violations_recent: number;
  total: Record<"arrived" | "answered" | "late" | "dropped" | "rejected" | "failed" | "cancelled", number>;
  queued: number;
  running: number;
}

export interface GpuLet {
  device: number;
  share: number;
  duty_cycle_ms: number;
  models: { name: string; batch: number; batch_ms: number | null }[];
}

export interface Executor {
  id: string;
  state: string;
  share: number;
  models: Record<string, string>;
  gpulet: GpuLet | null;
  connected: boolean;
  batches: number;
  busy_s: number;
  pid: number | null;
}

export interface Pair {
  gpulet: string;
  model: string;
  batch: number;
  beside: string | null;
  factor: number;
}

export interface Demand {
  rate: number | null;
  min_rate: number | null;
  slo_ms: number | null;
  priority: number | null;
}

export interface Planning {
  policy: string;
  max_share: number;
  cameras_priority: number;
  half_life_s: number;
  rise_half_life_s: number;
  headroom: number;
  grow_dwell_s: number;
  shrink_dwell_s: number;
  models: Record<string, Partial<Demand>>;
}

export interface Serving {
  front: { up: boolean; http: { host: string; port: number | null }; grpc: { host: string; port: number | null } };
  settings: Planning;
  share: { reserved: number; planned: number; most: number; beside_cameras: number; measuring: number; front_more: number };
  reorganising: boolean;
  models: ServedModel[];
  executors: Executor[];
  interference?: { measured: boolean; pairs: Pair[] };
  plan: { policy: string; schedulable: boolean; reasons: string[]; unplaced: string[]; gpulets: GpuLet[] } | null;
  problem: { devices: number; capacity: number } | null;
}

export interface Admission {
  candidate: string;
  kind: "model" | "camera";
  admitted: boolean;
  reasons: string[];
  yields: string[];
  models: {
    model: string;
    slo_ms: number;
    rate: number;
    priority: number;
    before_ms: number | null;
    after_ms: number | null;
    before_part: number;
    after_part: number;
  }[];
  cameras: { camera: string; before: number | null; after: number | null; loss: number }[];
  serving_share_before: number;
  serving_share_after: number;
  cameras_share_before: number;
  cameras_share_after: number;
  most_rate: number | null;
  rate?: number;
  planned_rate?: number;
}

/** Serving policies in words. */
export const SERVING_POLICIES: Record<string, string> = {
  mosaic: "Mosaic: the smallest share that holds every objective",
  elastic: "Elastic: at most two gpu-lets on a device, as published",
  "elastic-no-interference": "Elastic, blind to interference",
  squishy: "Squishy: whole devices, shared in time only",
  "guided-self-tuning": "Guided self-tuning: one gpu-let for each model",
  ideal: "Ideal: searches all splits (small sites)",
};
