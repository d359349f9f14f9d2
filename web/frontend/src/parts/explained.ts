/** A retraining window as GET /windows/N/explained tells it. Times in seconds after its start, shares of one device. */

import type { ExplainedWindow, ShareAnswer, StretchAnswer } from "../answers";
import type { CameraStory, ComparedSide, DecisionAnswer, JobStory, OptionAnswer, WhatIfAnswer } from "../answers";
import type { CostAnswer, EstimateAnswer } from "../answers";

export type { UsedShare } from "../answers";

export type Decision = DecisionAnswer;
export type Estimate = EstimateAnswer;
export type Explained = ExplainedWindow;
export type Kind = ShareAnswer["kind"];
export type Option = OptionAnswer;
export type Share = ShareAnswer;
export type Side = ComparedSide;
export type Stretch = StretchAnswer;
export type WhatIf = WhatIfAnswer;
export type WindowCamera = CameraStory;
export type WindowCost = CostAnswer;
export type WindowJob = JobStory;

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
