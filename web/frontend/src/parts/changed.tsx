/** A word about drift. */

import type { Drift } from "./accuracy";
import { Icon } from "./icon";

export function Changed({ drift }: { drift: Drift }) {
  return (
    <p class={drift.worse ? "warning" : "warning mild"}>
      <Icon name={drift.worse ? "wait" : "info"} />
      {drift.text}
    </p>
  );
}
