/** A retraining window as GET /windows/N/explained tells it. Times in seconds after its start, shares of one device. */

export type Kind = "inference" | "retraining" | "profiling" | "golden" | "serving" | "front" | "control" | "others";

export interface Share {
  kind: Kind;
  camera: string | null;
  config: string | null;
  share: number;
}

export interface Stretch {
  start_s: number;
  end_s: number;
  plan: number | null;
  phase: "preparing" | "running";
  shares: Share[];
}

export interface Decision {
  plan: number;
  at_s: number;
  until_s: number;
  cause: string;
  policy: string;
  objective: number;
  decision_s: number;
  whole: string[];
  cameras: Record<string, string[]>;
  faults: string[];
}

export interface Estimate {
  value: number;
  low: number;
  high: number;
}

export interface Option {
  config: string;
  words: string;
  start_accuracy: number;
  end_accuracy: Estimate;
  gpu_seconds: Estimate;
  gain_per_gpu_second: number | null;
  chosen: boolean;
  verdict: string;
}

export interface WindowJob {
  id: string;
  camera: string;
  config: string;
  words: string;
  share: number;
  attempt: number;
  outcome: "running" | "promoted" | "refused" | "stopped" | "failed" | "interrupted";
  started_s: number;
  ended_s: number | null;
  fraction: number;
  gpu_seconds: number;
  accuracy_before: number | null;
  accuracy_after: number | null;
  expected_accuracy: Estimate | null;
  expected_gpu_seconds: Estimate | null;
  reason: string;
}

export interface WindowCamera {
  camera: string;
  realised: number | null;
  frozen: number | null;
  frames_labelled: number;
  promised: number | null;
  predicted: number | null;
  steps: [number, number, number][];
  options: Option[];
  jobs: WindowJob[];
  losses: Record<string, number>;
  labelling_delay_s: number | null;
  profiling_delay_s: number | null;
}

export interface UsedShare {
  worker: string;
  kind: Kind;
  camera: string | null;
  asked: number;
  granted: number;
  used: number;
  device_seconds: number;
  wall_s: number;
  throttled_fraction: number;
}

export interface WindowCost {
  camera: string | null;
  kind: string;
  gpu_seconds: number;
  wall_s: number;
}

export interface Explained {
  window: {
    id: number;
    start_utc_s: number;
    length_s: number;
    policy: string;
    open: boolean;
    closed_utc_s: number | null;
    outcome: string;
  };
  timeline: Stretch[];
  decisions: Decision[];
  cameras: WindowCamera[];
  /** Configurations in words, by id. */
  configs: Record<string, string>;
  usage: UsedShare[];
  costs: WindowCost[];
  /** Policies that can be asked what they would have planned. */
  policies: string[];
}

export interface Side {
  policy: string;
  objective: number;
  timeline: Stretch[];
  cameras: Record<string, number>;
  lowest: Record<string, number>;
  reasons: Record<string, string[]>;
  faults: string[];
}

export interface WhatIf {
  policy: string;
  objective: number;
  original_policy: string;
  original_objective: number;
  comparison: { window: number; length_s: number; made: Side; asked: Side; configs: Record<string, string> };
}

export const KINDS: Record<Kind, string> = {
  inference: "inference",
  retraining: "retraining",
  profiling: "Profiling and measuring",
  golden: "Golden model (labels)",
  serving: "Served models",
  front: "Front of served models",
  control: "Control",
  others: "Other cameras",
};

/** The policies of retraining windows in words; one that is not here is shown by its name. */
export const POLICIES: Record<string, string> = {
  relay: "Relay: retrains one after another, the most gain for the least work first",
  exact: "Exact: the best of all plans whose shares stay until a retraining ends",
  thief: "Thief: moves small shares about as long as accuracy rises",
  uniform: "Uniform: the same share for all, the cheapest retraining",
  "uniform-heavy": "Uniform, heavy: the same share for all, the most thorough retraining",
  "no-retraining": "No retraining: all for inference",
  "fixed-resources": "Fixed shares: the best retraining for each within its part",
  "fixed-config": "Fixed retraining: one way to retrain for all, shares chosen",
};
