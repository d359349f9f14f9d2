/** The shares of a device, drawn to scale. */

import { percent } from "../format";

export interface DevicePart {
  key: string;
  name: string;
  share: number;
  colour: string;
  /** Work that is not for live answers is hatched. */
  training: boolean;
}

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
