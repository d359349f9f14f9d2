/** Accuracy over the last windows as a small drawing; the words beside it say the same. */

import type { History } from "./accuracy";

const WIDTH = 120;
const HEIGHT = 30;
const SHOWN = 20;

function path(values: (number | null)[]): string {
  const step = WIDTH / Math.max(1, values.length - 1);
  let drawing = false;
  let out = "";
  values.forEach((value, n) => {
    if (value === null) {
      drawing = false;
      return;
    }
    out += `${drawing ? "L" : "M"}${(n * step).toFixed(1)} ${(2 + (HEIGHT - 4) * (1 - value)).toFixed(1)} `;
    drawing = true;
  });
  return out;
}

export function Sparkline({ data, label }: { data: History; label: string }) {
  const realised = data.realised.slice(-SHOWN);
  const frozen = data.frozen.slice(-SHOWN);
  if (realised.filter((v) => v !== null).length < 2) return null;
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="frozen" d={path(frozen)} />
      <path class="realised" d={path(realised)} />
    </svg>
  );
}
