/** The shares of a device, drawn to scale. */

import type { DeviceShareAnswer } from "../answers";
import { percent } from "../format";

export interface DevicePart {
  key: string;
  name: string;
  share: number;
  colour: string;
  /** Work that is not for live answers is hatched. */
  training: boolean;
}

/** The parts of a device; those of a camera have the camera's colour. */
export const PARTS: Record<DeviceShareAnswer["part"], Pick<DevicePart, "name" | "colour" | "training">> = {
  inference: { name: "Inference", colour: "", training: false },
  retraining: { name: "Retraining", colour: "", training: true },
  golden: { name: "Golden model", colour: "var(--golden)", training: false },
  profiling: { name: "Profiling", colour: "var(--profiling)", training: false },
  lent: { name: "Lent to another box", colour: "var(--profiling)", training: true },
  serving: { name: "Served models", colour: "var(--part-serving)", training: false },
  front: { name: "Front of served models", colour: "var(--part-front)", training: false },
  control: { name: "Control", colour: "var(--control)", training: false },
};

/** Where more is shared out than there is, the bar is all of that. */
export function DeviceBar({ parts }: { parts: readonly DevicePart[] }) {
  const whole = Math.max(
    1,
    parts.reduce((total, p) => total + p.share, 0),
  );
  const shown = parts.filter((p) => p.share > 0);
  return (
    <div class="stack" role="img" aria-label={shown.map((p) => `${p.name} ${percent(p.share)}`).join(", ") || "Nothing is shared out"}>
      {shown.map((p) => (
        <span
          key={p.key}
          class={p.training ? "segment training" : "segment"}
          style={{ width: `${(100 * p.share) / whole}%`, backgroundColor: p.colour }}
          title={`${p.name}: ${percent(p.share)}`}
        />
      ))}
    </div>
  );
}
