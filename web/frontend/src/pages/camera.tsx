/** One camera: what it sees, how right it is, where its teacher disagrees, its models, its alarms, its settings. */

import { useEffect, useState } from "preact/hooks";

import type { ZoneSettings } from "../answers";
import { JOURNAL_KINDS } from "../answers";
import type { Alarm, Camera, CameraRecord, JournalEntry } from "../api";
import type { History } from "../parts/accuracy";
import { history } from "../parts/accuracy";
import { AlarmsLink } from "../parts/alarms_link";
import type { Asked } from "../parts/asking";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { ClipList } from "../parts/clips";
import { LivePicture, stateOf } from "../parts/live_picture";
import { Empty } from "../parts/states";
import { Tabs } from "../parts/tabs";
import { go, href, useRoute } from "../router";
import "../styles/camera.css";
import "../styles/truth.css";
import { AccuracyTab } from "./camera_accuracy";
import { DisagreementsTab } from "./camera_disagreements";
import { HappenedTab } from "./camera_happened";
import { ModelsTab } from "./camera_models";
import { CameraNow } from "./camera_now";
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

/** The drawing over the live picture. */
interface Drawn {
  boxes: boolean;
  zones: boolean;
}

export function CameraPage({ known, me, now_s }: PageProps) {
  const route = useRoute();
  const id = route.rest[0] ?? "";
  const tab = TABS.find((t) => t.id === route.query.get("tab"))?.id ?? "accuracy";
  const camera = known.overview?.cameras.find((c) => c.id === id);
  const changes = known.events.find((e) => e.camera === id && e.kind === "camera.changed")?.id ?? null;
  const detail = useAsked<CameraRecord>(camera ? `/cameras/${encodeURIComponent(id)}` : null, changes);
  const [drawn, setDrawn] = useState<Drawn>({ boxes: true, zones: true });

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
  const past = history(known.windows, id);
  return (
    <>
      <Head camera={camera} cameras={known.overview?.cameras ?? []} alarms={(known.alarms ?? []).filter((a) => a.camera === id)} />
      <div class="camera-top">
        <LiveView camera={camera} zones={detail.value?.settings.zones ?? []} drawn={drawn} onDrawn={(part) => setDrawn((before) => ({ ...before, ...part }))} />
        <CameraNow camera={camera} past={past} events={known.events} />
      </div>
      <div class="camera-tabs">
        <Tabs label={`About ${camera.name}`} tabs={TABS} chosen={tab} onChoose={choose}>
          <Panel tab={tab} camera={camera} past={past} detail={detail} known={known} me={me} now_s={now_s} />
        </Tabs>
      </div>
    </>
  );
}

function Head({ camera, cameras, alarms }: { camera: Camera; cameras: Camera[]; alarms: Alarm[] }) {
  const [label, tone] = stateOf(camera);
  const index = cameras.indexOf(camera);
  const previous = cameras[index - 1];
  const next = cameras[index + 1];
  return (
    <div class="page-head">
      <p class="crumb">
        <a href={href("wall")}>Cameras</a> <span aria-hidden="true">/</span>
      </p>
      <h1>{camera.name}</h1>
      <Badge tone={tone}>{label}</Badge>
      <AlarmsLink camera={camera.id} alarms={alarms} />
      <nav class="tools" aria-label="Other cameras">
        {previous && <a href={href("camera", previous.id)}>← {previous.name}</a>}
        {next && <a href={href("camera", next.id)}>{next.name} →</a>}
      </nav>
    </div>
  );
}

interface LiveViewProps {
  camera: Camera;
  zones: ZoneSettings[];
  drawn: Drawn;
  onDrawn: (part: Partial<Drawn>) => void;
}

function LiveView({ camera, zones, drawn, onDrawn }: LiveViewProps) {
  const { width, height } = camera.state.stream;
  return (
    <div class="camera-live" style={{ maxWidth: `calc(75vh * ${width && height ? width / height : 16 / 9})` }}>
      <LivePicture key={camera.id} camera={camera} boxes={drawn.boxes} fps={10} zones={drawn.zones ? zones : []} />
      <div class="switches">
        <label class="check">
          <input type="checkbox" checked={drawn.boxes} onChange={(e) => onDrawn({ boxes: e.currentTarget.checked })} />
          Show boxes
        </label>
        {zones.length > 0 && (
          <label class="check">
            <input type="checkbox" checked={drawn.zones} onChange={(e) => onDrawn({ zones: e.currentTarget.checked })} />
            Show zones: {zones.map((z) => z.name).join(", ")}
          </label>
        )}
      </div>
    </div>
  );
}

interface PanelProps extends PageProps {
  tab: string;
  camera: Camera;
  past: History;
  detail: Asked<CameraRecord>;
}

/** The content of the chosen tab. */
function Panel({ tab, camera, past, detail, known, me, now_s }: PanelProps) {
  const latest = past.x.at(-1) ?? null;
  return (
    <>
      {tab === "accuracy" && <AccuracyTab camera={camera} past={past} />}
      {tab === "disagreements" && <DisagreementsTab camera={camera} latest={latest} />}
      {tab === "truth" && <TruthTab camera={camera} me={me} latest={latest} />}
      {tab === "models" && <ModelsTab camera={camera} me={me} />}
      {tab === "alarms" && <HappenedTab camera={camera} known={known} me={me} now_s={now_s} />}
      {tab === "clips" && <ClipList me={me} cameras={known.overview?.cameras ?? []} camera={camera} now_s={now_s} when={clipNews(known.events)} />}
      {tab === "settings" && <SettingsTab camera={camera} detail={detail} me={me} />}
    </>
  );
}

/** The last news of a clip: with another there is something to ask. */
function clipNews(events: JournalEntry[]): JournalEntry["id"] {
  return events.find((e) => JOURNAL_KINDS.clip.has(e.kind))?.id ?? null;
}
