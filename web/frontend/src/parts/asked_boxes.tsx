/** The boxes that did not answer a question to all boxes, and why. */

import type { AskedBoxAnswer } from "../answers";
import { ago } from "../format";

const WHY: Record<AskedBoxAnswer["outcome"], string> = {
  answered: "",
  silent: "does not answer",
  not_known: "is of another version, which does not know this question",
  refused: "refuses to answer",
  too_long: "has a longer answer than is taken",
  failed: "could not answer",
  not_asked: "was not asked: there are more boxes than are asked at once",
};

export function AskedBoxes({ boxes }: { boxes: readonly AskedBoxAnswer[] }) {
  const missing = boxes.filter((b) => b.outcome !== "answered");
  if (missing.length === 0) return null;
  return (
    <div class="missing-boxes" role="status">
      <ul>
        {missing.map((b) => (
          <li key={b.box}>
            <b>{b.box}</b> {WHY[b.outcome]}. {b.age_s === null ? "It has not answered since the agent of this box began." : `It last answered ${ago(b.age_s)}.`}
          </li>
        ))}
      </ul>
    </div>
  );
}
