/** Forecasts as GET /capacity tells them, and the changes that can be asked about. Accuracies are parts (0-1). */

import type { EstimateAnswer, ForecastAnswer } from "../answers";
import { percent } from "../format";

export type { CapacityAnswer } from "../answers";

export type Forecast = ForecastAnswer;

/** The possible questions, in words, with their bodies. `camera`: which one may be named. */
export const CHANGES: { name: string; title: string; body: { kind: Forecast["change"]["kind"]; factor?: number }; camera?: string }[] = [
  { name: "camera", title: "One more camera", body: { kind: "camera" }, camera: "Like" },
  { name: "frame_rate", title: "Twice the frame rate", body: { kind: "frame_rate", factor: 2 }, camera: "Of" },
  { name: "window", title: "Windows half as long", body: { kind: "window" } },
  { name: "half", title: "Half the device", body: { kind: "device", factor: 0.5 } },
  { name: "twice", title: "Twice the device", body: { kind: "device", factor: 2 } },
  { name: "box", title: "A second box", body: { kind: "box" } },
];

/** "63 % to 69 %". */
export function range(found: EstimateAnswer): string {
  return `${percent(found.low)} to ${percent(found.high)}`;
}
