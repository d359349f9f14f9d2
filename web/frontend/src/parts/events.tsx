/** The latest journal entries. */

import type { Camera, JournalEntry } from "../api";
import { clock } from "../format";
import { entryText } from "../words";

/** Null `cameras`: all are of one camera, which need not be named. */
export function Events({ events, cameras }: { events: JournalEntry[]; cameras: Camera[] | null }) {
  return (
    <section class="card happened" aria-labelledby="events-title">
      <h2 id="events-title">What happened</h2>
      {events.length === 0 ? (
        <p class="quiet">Nothing yet.</p>
      ) : (
        <ol class="events" tabIndex={0} aria-label="Latest events, newest first">
          {events.map((entry, n) => {
            const line = entryText(entry, (id) => cameras?.find((c) => c.id === id)?.name ?? id);
            const name = cameras === null ? null : (cameras.find((c) => c.id === entry.camera)?.name ?? entry.camera);
            return (
              <li key={`${entry.id ?? "lost"}-${entry.utc_s ?? n}`} class={line.tone}>
                <time>{entry.utc_s === null ? "" : clock(entry.utc_s)}</time>
                <span>
                  {name !== null && <b>{name}: </b>}
                  {line.text}
                </span>
              </li>
            );
          })}
        </ol>
      )}
    </section>
  );
}
