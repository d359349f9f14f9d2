/** The button under a list that has older entries. */

import type { Paged } from "./paged";

export function Older({ of, words = "Older entries" }: { of: Pick<Paged<unknown>, "older">; words?: string }) {
  if (of.older === null) return null;
  return (
    <div class="actions">
      <button type="button" onClick={() => void of.older?.()}>
        {words}
      </button>
    </div>
  );
}
