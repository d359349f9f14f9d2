/** The journal: what happened, in words, with filters. */

import { useState } from "preact/hooks";

import type { Camera, JournalEntry } from "../api";
import { moment } from "../format";
import { CameraFilter } from "../parts/camera_filter";
import { Older } from "../parts/older";
import { usePaged } from "../parts/paged";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { entryText } from "../words";

const PAGE = 100;
const EVERY_S = 5;
const KIND = /^[a-z0-9_.-]{1,100}$/;
/** The kinds that people look for most; others can be typed. */
const KINDS = [
  "alarm.new",
  "camera.live",
  "camera.reconnecting",
  "camera.stalled",
  "complaint",
  "model.from_sibling",
  "model.promoted",
  "model.rejected",
  "model.rolled_back",
  "plan",
  "retraining.started",
  "retraining.failed",
  "retraining.stopped",
  "rule.changed",
  "serving.plan",
  "window.opened",
  "window.measured",
  "worker.worker_lost",
];

export function Journal({ cameras }: { cameras: Camera[] }) {
  const [camera, setCamera] = useState("");
  const [typed, setTyped] = useState("");
  const wanted = typed.trim();
  const good = wanted === "" || KIND.test(wanted);
  const filters = [camera ? `camera=${encodeURIComponent(camera)}` : "", good && wanted ? `kind=${wanted}` : ""].filter(Boolean);
  const found = usePaged<JournalEntry>(`/events${filters.length ? `?${filters.join("&")}` : ""}`, PAGE, null, EVERY_S);
  const seen = [...new Set([...KINDS, ...(found.rows ?? []).map((e) => e.kind)])].sort();
  return (
    <section class="card" aria-labelledby="journal-title">
      <div class="card-head">
        <h2 id="journal-title">Journal</h2>
        <div class="filters">
          <CameraFilter cameras={cameras} chosen={camera} onChoose={setCamera} />
          <label>
            Kind{" "}
            <input
              type="text"
              list="journal-kinds"
              placeholder="all"
              value={typed}
              autocapitalize="none"
              spellcheck={false}
              aria-invalid={!good}
              onInput={(e) => setTyped(e.currentTarget.value)}
            />
          </label>
          <datalist id="journal-kinds">
            {seen.map((k) => (
              <option key={k} value={k} />
            ))}
          </datalist>
        </div>
      </div>
      {!good && (
        <p class="problem" role="alert">
          Kind: allowed: small letters, digits, dots and underscores, as model.promoted
        </p>
      )}
      {found.error !== null && <ErrorBox what="The journal could not be loaded" error={found.error} onRetry={found.again} />}
      {found.rows === null && found.error === null && <Loading what="Loading the journal" />}
      {found.rows?.length === 0 && <Empty title="No such entry">Other filters may find some.</Empty>}
      {found.rows !== null && found.rows.length > 0 && (
        <ol class="journal" aria-label="Journal, newest first">
          {found.rows.map((entry) => (
            <Entry key={entry.id} entry={entry} cameras={cameras} />
          ))}
        </ol>
      )}
      <Older of={found} />
    </section>
  );
}

function Entry({ entry, cameras }: { entry: JournalEntry; cameras: Camera[] }) {
  const line = entryText(entry, (id) => cameras.find((c) => c.id === id)?.name ?? id);
  const name = cameras.find((c) => c.id === entry.camera)?.name ?? entry.camera;
  return (
    <li class={line.tone}>
      <time>{entry.utc_s === null ? "" : moment(entry.utc_s)}</time>
      <details>
        <summary>
          {name !== null && <b>{name}: </b>}
          {line.text}
        </summary>
        <dl class="pairs">
          <div>
            <dt>Kind</dt>
            <dd>
              <code>{entry.kind}</code>
            </dd>
          </div>
          {entry.window !== null && (
            <div>
              <dt>Window</dt>
              <dd>{entry.window}</dd>
            </div>
          )}
          {Object.entries(entry.data).map(([key, value]) => (
            <div key={key}>
              <dt>{key}</dt>
              <dd class="break">{typeof value === "string" ? value : JSON.stringify(value)}</dd>
            </div>
          ))}
        </dl>
      </details>
    </li>
  );
}
