/** One camera: what it sees, how right it is, where its teacher disagrees, its models, its alarms, its settings. */

import { useEffect, useState } from "preact/hooks";

import { JOURNAL_KINDS } from "../answers";
import type { CameraRecord, JournalEntry } from "../api";
import { clock, percent, points, shortVersion } from "../format";
import { drift, history, measured } from "../parts/accuracy";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Changed } from "../parts/changed";
import { ClipList } from "../parts/clips";
import { Icon } from "../parts/icon";
import { LivePicture, stateOf } from "../parts/live_picture";
import { Empty } from "../parts/states";
import { Tabs } from "../parts/tabs";
import { go, href, useRoute } from "../router";
import { entryText, lookWords, lossWords } from "../words";
import "../styles/camera.css";
import "../styles/truth.css";
import { AccuracyTab } from "./camera_accuracy";
import { DisagreementsTab } from "./camera_disagreements";
import { HappenedTab } from "./camera_happened";
import { ModelsTab } from "./camera_models";
import { SettingsTab } from "./camera_settings";
import { TruthTab } from "./camera_truth";
import type { PageProps } from "./page";

const TABS = [
  { id: "accuracy", title: "Accuracy" },
  { id: "disagreements", title: "Disagreements" },
  { id: "truth", title: "True accuracy" },
  { id: "models", title: "Models" },
  { id: "alarms", title: "Alarms and objects" },
  { id: "clips", title: "Clips" },
  { id: "settings", title: "Settings" },
];

export function CameraPage({ known, me, now_s }: PageProps) {
  const route = useRoute();
  const id = route.rest[0] ?? "";
  const tab = TABS.find((t) => t.id === route.query.get("tab"))?.id ?? "accuracy";
  const camera = known.overview?.cameras.find((c) => c.id === id);
  const changes = known.events.find((e) => e.camera === id && e.kind === "camera.changed")?.id ?? null;
  const detail = useAsked<CameraRecord>(camera ? `/cameras/${encodeURIComponent(id)}` : null, changes);

  const [boxes, setBoxes] = useState(true);
  const [showZones, setShowZones] = useState(true);

  // The row of tabs stays where it is: only the panel changes.
  const choose = (to: string): void => go(`${href("camera", id)}${to === "accuracy" ? "" : `?tab=${to}`}`, true);
  useEffect(() => {
    if (route.query.get("tab") !== null) document.querySelector(".camera-tabs")?.scrollIntoView({ block: "nearest" });
  }, []);

  if (camera === undefined) {
    return (
      <Empty title="There is no such camera" level={1} action={<a href={href("wall")}>To all cameras</a>}>
        It was removed, or your account may not see it.
      </Empty>
    );
  }
  const [label, tone] = stateOf(camera);
  const past = history(known.windows, id);
  const { realised, frozen, download } = measured(camera, past);
  const left = download ?? frozen;
  const gain = realised === null || left === null ? null : realised - left;
  const changed = drift(past);
  const zones = detail.value?.settings.zones ?? [];
  const index = known.overview?.cameras.indexOf(camera) ?? 0;
  const neighbours = known.overview?.cameras ?? [];
  const previous = neighbours[index - 1];
  const next = neighbours[index + 1];
  const open = (known.alarms ?? []).filter((a) => a.camera === id);
  return (
    <>
      <div class="page-head">
        <p class="crumb">
          <a href={href("wall")}>Cameras</a> <span aria-hidden="true">/</span>
        </p>
        <h1>{camera.name}</h1>
        <Badge tone={tone}>{label}</Badge>
        {open.length > 0 && (
          <a class="badge bad" href={`${href("camera", id)}?tab=alarms`}>
            <Icon name="bell" size={13} />
            {open.length} {open.length === 1 ? "alarm" : "alarms"}
          </a>
        )}
        <nav class="tools" aria-label="Other cameras">
          {previous && <a href={href("camera", previous.id)}>← {previous.name}</a>}
          {next && <a href={href("camera", next.id)}>{next.name} →</a>}
        </nav>
      </div>
      <div class="camera-top">
        <div class="camera-live" style={{ maxWidth: `calc(75vh * ${camera.width && camera.height ? camera.width / camera.height : 16 / 9})` }}>
          <LivePicture key={id} camera={camera} boxes={boxes} fps={10} zones={showZones ? zones : []} />
          <div class="switches">
            <label class="check">
              <input type="checkbox" checked={boxes} onChange={(e) => setBoxes(e.currentTarget.checked)} />
              Show boxes
            </label>
            {zones.length > 0 && (
              <label class="check">
                <input type="checkbox" checked={showZones} onChange={(e) => setShowZones(e.currentTarget.checked)} />
                Show zones: {zones.map((z) => z.name).join(", ")}
              </label>
            )}
          </div>
        </div>
        <div class="card camera-now">
          <div class="big-numbers">
            <div>
              <p class="quiet">Right in the last window</p>
              <p class="big">{percent(realised)}</p>
            </div>
            <div>
              <p class="quiet">{download === null ? "Had it never learned" : `${camera.student} as downloaded`}</p>
              <p class="big quiet">{percent(left)}</p>
            </div>
            {gain !== null && (
              <div>
                <p class="quiet">{download === null ? "Gained by retraining" : "Gained over the download"}</p>
                <p class={`big gain ${gain >= 0 ? "up" : "down"}`}>{points(gain)}</p>
              </div>
            )}
          </div>
          {changed && <Changed drift={changed} />}
          <dl class="pairs">
            <dt>Model</dt>
            <dd>
              <a href={`${href("camera", id)}?tab=models`}>{shortVersion({ id: camera.model_version, origin: camera.model_origin, window: camera.model_window })}</a>
            </dd>
            <dt>Looks at</dt>
            <dd>{lookWords(camera)}</dd>
            <dt>Stream</dt>
            <dd>
              {camera.state === "live"
                ? `${camera.fps.toFixed(1)} frames a second, ${camera.width} × ${camera.height} pixels`
                : camera.message || label}
            </dd>
            <dt>Answers</dt>
            <dd>
              {camera.state === "live" ? `${camera.answers_per_s.toFixed(1)} a second, each ${camera.inference_ms.toFixed(0)} ms` : "–"}
            </dd>
            <dt>Delay</dt>
            <dd>{camera.state === "live" ? `${camera.delay_s.toFixed(2)} s behind the camera` : "–"}</dd>
            {camera.recorder && (
              <>
                <dt>Recorder</dt>
                <dd>{camera.recorder}</dd>
              </>
            )}
            <dt>Lost</dt>
            <dd>{lossWords(camera.losses)}</dd>
          </dl>
          <Lately events={known.events.filter((e) => e.camera === id).slice(0, 5)} />
        </div>
      </div>
      <div class="camera-tabs">
        <Tabs label={`About ${camera.name}`} tabs={TABS} chosen={tab} onChoose={choose}>
          {tab === "accuracy" && <AccuracyTab camera={camera} past={past} />}
          {tab === "disagreements" && <DisagreementsTab camera={camera} latest={past.x.at(-1) ?? null} />}
          {tab === "truth" && <TruthTab camera={camera} me={me} latest={past.x.at(-1) ?? null} />}
          {tab === "models" && <ModelsTab camera={camera} me={me} />}
          {tab === "alarms" && <HappenedTab camera={camera} known={known} me={me} now_s={now_s} />}
          {tab === "clips" && <ClipList me={me} cameras={neighbours} camera={camera} now_s={now_s} when={clipNews(known.events)} />}
          {tab === "settings" && <SettingsTab camera={camera} detail={detail} me={me} />}
        </Tabs>
      </div>
    </>
  );
}

/** The last news of a clip: with another there is something to ask. */
function clipNews(events: JournalEntry[]): JournalEntry["id"] {
  return events.find((e) => JOURNAL_KINDS.clip.has(e.kind))?.id ?? null;
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
