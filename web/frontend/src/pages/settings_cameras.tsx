/** Cameras: add with a connection test, change, draw zones, switch off, remove. */

import { useState } from "preact/hooks";

import type { Camera, CameraRecord } from "../api";
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

export function CamerasSection(props: SectionProps) {
  const { known, me, rest } = props;
  const live = known.overview?.cameras ?? [];
  const { value, error, again } = useAsked<CameraRecord[]>("/cameras", live.length);
  const [removing, setRemoving] = useState<CameraRecord | null>(null);
  const [busy, setBusy] = useState("");
  if (value === null) return error === null ? <Loading /> : <ErrorBox what="The cameras could not be asked" error={error} onRetry={again} />;
  const back = (): void => {
    again();
    go(href("settings", "cameras"));
  };
  const chosen = value.find((c) => c.id === rest[0]);
  if (rest[0] === "new") {
    if (!full(me)) return <Empty title="Add a camera">{whyNot("admin")}</Empty>;
    return <OneCamera key="new" {...props} camera={null} onDone={back} />;
  }
  if (chosen !== undefined && rest[1] === "zones") {
    return <ZonesForm key={`${chosen.id}-zones`} camera={chosen} state={live.find((c) => c.id === chosen.id)} changeable={may(me, "operator")} onSaved={again} />;
  }
  if (chosen !== undefined && rest[1] === "masks") {
    return <MasksForm key={`${chosen.id}-masks`} camera={chosen} state={live.find((c) => c.id === chosen.id)} changeable={may(me, "admin")} onSaved={again} />;
  }
  if (chosen !== undefined && rest[1] === "lines") {
    return <LinesForm key={`${chosen.id}-lines`} camera={chosen} state={live.find((c) => c.id === chosen.id)} changeable={may(me, "operator")} onSaved={again} />;
  }
  if (chosen !== undefined) return <OneCamera key={chosen.id} {...props} camera={chosen} onDone={back} />;

  const toggle = async (camera: CameraRecord): Promise<void> => {
    setBusy(camera.id);
    try {
      await ask(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", { enabled: !camera.settings.enabled });
      toast(`${cameraTitle(camera)} is ${camera.settings.enabled ? "off" : "on"}`);
      again();
    } catch (failure) {
      toast(`Not changed: ${words(failure)}`, "bad");
    } finally {
      setBusy("");
    }
  };

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
        <Table
          caption="Cameras"
          rows={value}
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
              cell: (c) => {
                const name = cameraTitle(c);
                return (
                  <span class="row-actions">
                    <a class="button" href={href("settings", "cameras", c.id)} aria-label={`${may(me, "operator") ? "Change" : "Show"} ${name}`}>
                      {may(me, "operator") ? "Change" : "Show"}
                    </a>
                    <a class="button" href={href("settings", "cameras", c.id, "zones")} aria-label={`Zones of ${name}`}>
                      Zones
                    </a>
                    <a class="button" href={href("settings", "cameras", c.id, "lines")} aria-label={`Lines of ${name}`}>
                      Lines
                    </a>
                    {may(me, "operator") && (
                      <button type="button" disabled={busy !== ""} onClick={() => void toggle(c)}>
                        <span>
                          {busy === c.id ? "Switching…" : c.settings.enabled ? "Switch off" : "Switch on"} <span class="hidden">{name}</span>
                        </span>
                      </button>
                    )}
                    {full(me) && (
                      <button type="button" aria-label={`Remove ${name}`} onClick={() => setRemoving(c)}>
                        Remove
                      </button>
                    )}
                  </span>
                );
              },
            },
          ]}
        />
      )}
      {removing && <RemoveCamera camera={removing} onClose={() => setRemoving(null)} onRemoved={again} />}
    </section>
  );
}

function CameraState({ camera, enabled }: { camera: Camera | undefined; enabled: boolean }) {
  if (!enabled) return <Badge tone="off">Off</Badge>;
  if (camera === undefined) return <Badge tone="wait">Starting</Badge>;
  const [words_, tone] = stateOf(camera);
  return (
    <>
      <Badge tone={tone}>{words_}</Badge>
      {camera.state !== "live" && camera.message && <span class="under quiet">{camera.message}</span>}
    </>
  );
}

interface OneProps extends SectionProps {
  camera: CameraRecord | null;
  onDone: () => void;
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
