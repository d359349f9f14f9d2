/** The card beside a camera's picture: how right it is now, how its stream and its answers are, and what happened lately. */

import type { Camera, JournalEntry } from "../api";
import { clock, percent, points, shortVersion } from "../format";
import type { History } from "../parts/accuracy";
import { drift, gained, measured } from "../parts/accuracy";
import { Changed } from "../parts/changed";
import { stateOf } from "../parts/live_picture";
import { href } from "../router";
import { entryText, lookWords, lossWords } from "../words";

const LATELY = 5;

interface Props {
  camera: Camera;
  past: History;
  events: JournalEntry[];
}

export function CameraNow({ camera, past, events }: Props) {
  const changed = drift(past);
  return (
    <div class="card camera-now">
      <BigNumbers camera={camera} past={past} />
      {changed && <Changed drift={changed} />}
      <Facts camera={camera} />
      <Lately events={events.filter((e) => e.camera === camera.id).slice(0, LATELY)} />
    </div>
  );
}

function BigNumbers({ camera, past }: { camera: Camera; past: History }) {
  const figures = measured(camera, past);
  const { left, gain } = gained(figures);
  const downloaded = figures.download !== null;
  return (
    <div class="big-numbers">
      <div>
        <p class="quiet">Right in the last window</p>
        <p class="big">{percent(figures.realised)}</p>
      </div>
      <div>
        <p class="quiet">{downloaded ? `${camera.state.model.student} as downloaded` : "Had it never learned"}</p>
        <p class="big quiet">{percent(left)}</p>
      </div>
      {gain !== null && (
        <div>
          <p class="quiet">{downloaded ? "Gained over the download" : "Gained by retraining"}</p>
          <p class={`big gain ${gain >= 0 ? "up" : "down"}`}>{points(gain)}</p>
        </div>
      )}
    </div>
  );
}

function Facts({ camera }: { camera: Camera }) {
  const { state, message, stream, model, inference, recorder, losses } = camera.state;
  const isLive = state === "live";
  return (
    <dl class="pairs">
      <dt>Model</dt>
      <dd>
        <a href={`${href("camera", camera.id)}?tab=models`}>{shortVersion({ id: model.version, origin: model.origin, window: model.window })}</a>
      </dd>
      <dt>Looks at</dt>
      <dd>{lookWords(camera)}</dd>
      <dt>Stream</dt>
      <dd>
        {isLive
          ? `${stream.fps.toFixed(1)} frames a second, ${stream.width} × ${stream.height} pixels`
          : message || stateOf(camera)[0]}
      </dd>
      <dt>Answers</dt>
      <dd>{isLive ? `${inference.answers_per_s.toFixed(1)} a second, each ${inference.inference_ms.toFixed(0)} ms` : "–"}</dd>
      <dt>Delay</dt>
      <dd>{isLive ? `${stream.delay_s.toFixed(2)} s behind the camera` : "–"}</dd>
      {recorder && (
        <>
          <dt>Recorder</dt>
          <dd>{recorder}</dd>
        </>
      )}
      <dt>Lost</dt>
      <dd>{lossWords(losses)}</dd>
    </dl>
  );
}

/** Its last journal entries: why something changed. */
function Lately({ events }: { events: JournalEntry[] }) {
  if (events.length === 0) return null;
  return (
    <div class="lately">
      <h2>Lately</h2>
      <ol class="events">
        {events.map((entry, n) => {
          const line = entryText(entry);
          return (
            <li key={`${entry.id ?? "lost"}-${n}`} class={line.tone}>
              <time>{entry.utc_s === null ? "" : clock(entry.utc_s)}</time>
              <span>{line.text}</span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}
