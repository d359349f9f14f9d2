/** How a retraining window went: its outcome as a badge, and the gain of retraining. */

import { points } from "../format";
import type { Tone } from "./badge";
import { Badge } from "./badge";

const OUTCOMES: Record<string, [string, Tone]> = {
  open: ["Running", "info"],
  completed: ["Completed", "good"],
  interrupted: ["Interrupted", "wait"],
  aborted: ["Broken off", "bad"],
};

export function outcomeBadge(outcome: string) {
  const [words, tone] = OUTCOMES[outcome] ?? [outcome, "off"];
  return <Badge tone={tone}>{words}</Badge>;
}

export function Gain({ realised, frozen }: { realised: number | null; frozen: number | null }) {
  if (realised === null || frozen === null) return <>–</>;
  const gain = realised - frozen;
  return <span class={gain >= 0.0005 ? "gained" : gain <= -0.0005 ? "lost" : ""}>{points(gain)}</span>;
}
