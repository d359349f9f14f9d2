/** Cameras: add with a connection test, change, draw zones, switch off, remove. */

import { useState } from "preact/hooks";

import type { Camera, CameraRecord, Me } from "../api";
import { ask, words } from "../api";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { stateOf } from "../parts/live_picture";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { toast } from "../parts/toasts";
import { go, href } from "../router";
import { may, whyNot } from "../session";
import { CameraForm, RemoveCamera, cameraTitle, full } from "./camera_form";
import type { SectionProps } from "./page";
import { LinesForm, MasksForm, ZonesForm } from "./settings_places";

interface Switching {
  /** The camera that is being switched; empty: none. */
  busy: string;
  toggle: (camera: CameraRecord) => Promise<void>;
}

/** Switches cameras on and off. */
function useSwitching(onDone: () => void): Switching {
  const [busy, setBusy] = useState("");
  const toggle = async (camera: CameraRecord): Promise<void> => {
    setBusy(camera.id);
    try {
      await ask(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", { enabled: !camera.settings.enabled });
      toast(`${cameraTitle(camera)} is ${camera.settings.enabled ? "off" : "on"}`);
      onDone();
    } catch (failure) {
      toast(`Not changed: ${words(failure)}`, "bad");
    } finally {
      setBusy("");
    }
  };
  return { busy, toggle };
}

export function CamerasSection(props: SectionProps) {
  const { known, me, rest } = props;
  const live = known.overview?.cameras ?? [];
  const { value, error, again } = useAsked<CameraRecord[]>("/cameras", live.length);
  const [removing, setRemoving] = useState<CameraRecord | null>(null);
  const switching = useSwitching(again);
  if (value === null) return error === null ? <Loading /> : <ErrorBox what="The cameras could not be loaded" error={error} onRetry={again} />;
  const back = (): void => {
    again();
    go(href("settings", "cameras"));
  };
  const chosen = value.find((c) => c.id === rest[0]);
  if (rest[0] === "new") {
    if (!full(me)) return <Empty title="Add a camera">{whyNot("admin")}</Empty>;
    return <OneCamera key="new" {...props} camera={null} onDone={back} />;
  }
  if (chosen !== undefined) return <ChosenCamera {...props} camera={chosen} onSaved={again} onDone={back} />;
  return (
    <section class="card" aria-labelledby="cameras-title">
      <div class="card-head">
        <h2 id="cameras-title">Cameras</h2>
        {full(me) && (
          <a class="button primary" href={href("settings", "cameras", "new")}>
            Add a camera
          </a>
        )}
      </div>
      {!full(me) && <p class="quiet lead">Adding and removing cameras: {whyNot("admin")}</p>}
      {rest[0] !== undefined && <p class="problem">There is no camera {rest[0]}.</p>}
      {value.length === 0 ? (
        <Empty title="No camera yet" action={full(me) ? <a href={href("settings", "cameras", "new")}>Add the first one</a> : undefined}>
          A camera is added with its RTSP address; the connection can be tried first.
        </Empty>
      ) : (
        <CamerasTable cameras={value} live={live} me={me} switching={switching} onRemove={setRemoving} />
      )}
      {removing && <RemoveCamera camera={removing} onClose={() => setRemoving(null)} onRemoved={again} />}
    </section>
  );
}

interface ActionsProps {
  me: Me;
  switching: Switching;
  onRemove: (camera: CameraRecord) => void;
}

interface TableProps extends ActionsProps {
  cameras: CameraRecord[];
  /** Their states. */
  live: Camera[];
}

function CamerasTable({ cameras, live, ...props }: TableProps) {
  return (
    <Table
      caption="Cameras"
      rows={cameras}
      rowKey={(c) => c.id}
      columns={[
        {
          key: "name",
          title: "Camera",
          cell: (c) => (
            <>
              <a href={href("settings", "cameras", c.id)}>{cameraTitle(c)}</a>
              {c.settings.name && <span class="quiet under">{c.id}</span>}
            </>
          ),
        },
        { key: "state", title: "State", cell: (c) => <CameraState camera={live.find((l) => l.id === c.id)} enabled={c.settings.enabled} /> },
        { key: "classes", title: "Tells apart", cell: (c) => c.settings.classes.join(", ") },
        { key: "zones", title: "Zones", cell: (c) => c.settings.zones.map((z) => z.name).join(", ") || <span class="quiet">none</span> },
        {
          key: "actions",
          title: "Actions",
          cell: (c) => <CameraActions {...props} camera={c} />,
        },
      ]}
    />
  );
}

function CameraActions({ camera, me, switching, onRemove }: ActionsProps & { camera: CameraRecord }) {
  const name = cameraTitle(camera);
  return (
    <span class="row-actions">
      <a class="button" href={href("settings", "cameras", camera.id)} aria-label={`${may(me, "operator") ? "Change" : "Show"} ${name}`}>
        {may(me, "operator") ? "Change" : "Show"}
      </a>
      <a class="button" href={href("settings", "cameras", camera.id, "zones")} aria-label={`Zones of ${name}`}>
        Zones
      </a>
      <a class="button" href={href("settings", "cameras", camera.id, "lines")} aria-label={`Lines of ${name}`}>
        Lines
      </a>
      {may(me, "operator") && (
        <button type="button" disabled={switching.busy !== ""} onClick={() => void switching.toggle(camera)}>
          <span>
            {switching.busy === camera.id ? "Switching…" : camera.settings.enabled ? "Switch off" : "Switch on"} <span class="hidden">{name}</span>
          </span>
        </button>
      )}
      {full(me) && (
        <button type="button" aria-label={`Remove ${name}`} onClick={() => onRemove(camera)}>
          Remove
        </button>
      )}
    </span>
  );
}

function CameraState({ camera, enabled }: { camera: Camera | undefined; enabled: boolean }) {
  if (!enabled) return <Badge tone="off">Off</Badge>;
  if (camera === undefined) return <Badge tone="wait">Starting</Badge>;
  const { state, message } = camera.state;
  const [words_, tone] = stateOf(camera);
  return (
    <>
      <Badge tone={tone}>{words_}</Badge>
      {state !== "live" && message && <span class="under quiet">{message}</span>}
    </>
  );
}

interface OneProps extends SectionProps {
  camera: CameraRecord | null;
  onDone: () => void;
}

interface ChosenProps extends OneProps {
  camera: CameraRecord;
  onSaved: () => void;
}

/** The form of the camera's settings, or of its places, as the address says. */
function ChosenCamera({ onSaved, ...props }: ChosenProps) {
  const { known, me, rest, camera } = props;
  const state = known.overview?.cameras.find((c) => c.id === camera.id)?.state;
  if (rest[1] === "zones") return <ZonesForm key={`${camera.id}-zones`} camera={camera} state={state} changeable={may(me, "operator")} onSaved={onSaved} />;
  if (rest[1] === "masks") return <MasksForm key={`${camera.id}-masks`} camera={camera} state={state} changeable={may(me, "admin")} onSaved={onSaved} />;
  if (rest[1] === "lines") return <LinesForm key={`${camera.id}-lines`} camera={camera} state={state} changeable={may(me, "operator")} onSaved={onSaved} />;
  return <OneCamera key={camera.id} {...props} />;
}

function OneCamera({ root, me, camera, onDone }: OneProps) {
  return (
    <section class="card" aria-labelledby="camera-title">
      <div class="card-head">
        <h2 id="camera-title">{camera === null ? "Add a camera" : cameraTitle(camera)}</h2>
        <span class="row-actions">
          {camera !== null && <a href={href("settings", "cameras", camera.id, "zones")}>Zones</a>}
          {camera !== null && <a href={href("settings", "cameras", camera.id, "lines")}>Lines</a>}
          {camera !== null && <a href={href("settings", "cameras", camera.id, "masks")}>Masks</a>}
          <a href={href("settings", "cameras")}>All cameras</a>
        </span>
      </div>
      <CameraForm root={root} me={me} camera={camera} onSaved={onDone} onRemoved={onDone} />
    </section>
  );
}
