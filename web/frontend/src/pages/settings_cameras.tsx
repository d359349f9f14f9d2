/** Cameras: add with a connection test, change, draw zones, switch off, remove. */

import { useEffect, useState } from "preact/hooks";

import type { Camera, Me } from "../api";
import { ask, pictureUrl, problemsOf, words } from "../api";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm } from "../parts/dialog";
import { useCheck } from "../parts/form";
import { stateOf } from "../parts/live_picture";
import type { Group, Json, Schema } from "../parts/schema_form";
import { SchemaFields, defaultsOf, useForm } from "../parts/schema_form";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { toast } from "../parts/toasts";
import type { Zone } from "../parts/zone_editor";
import { ZoneEditor } from "../parts/zone_editor";
import { go, href } from "../router";
import { may, whyNot } from "../session";
import type { SectionProps } from "./settings";
import { SaveBar } from "./settings_retraining";

export interface CameraRecord {
  id: string;
  settings: Json & { id: string; name: string; url: string; enabled: boolean; classes: string[]; zones?: Zone[] };
}

interface Tested {
  ok: boolean;
  width: number;
  height: number;
  fps: number;
  codec: string;
  message: string;
  /** JPEG, base64. */
  picture?: string | null;
}

const TEST_MS = 40_000;
/** Fields that only an administrator may change: they reach into the network or name a secret. */
const GUARDED = new Set(["url", "username", "password_from", "transport", "student.weights"]);

/** Who may see them all, and is an administrator. */
function full(me: Me): boolean {
  return may(me, "admin") && me.cameras === null;
}

function groups(isNew: boolean, admin: boolean, secrets: string[]): Group[] {
  const found: Group[] = [
    {
      title: "Camera",
      fields: [
        ...(isNew ? [{ path: "id", label: "Id", hint: "Small letters, digits, - and _; it does not change" }] : []),
        { path: "name", label: "Name", hint: "For people; empty: the id" },
        { path: "enabled", label: "On" },
      ],
    },
    {
      title: "Connection",
      fields: [
        { path: "url", label: "Address", hint: "rtsp://, rtsps://, or the path of a file or folder. Without a password in it." },
        { path: "transport", label: "Transport", hint: "tcp loses no packets; udp for cameras that know nothing else" },
        { path: "username", label: "User name" },
        { path: "password_from", label: "Password", hint: "A reference, never the password itself: secret:NAME (Settings, Secrets), env:NAME or file:/path#key", suggestions: secrets },
      ],
    },
    {
      title: "What it watches",
      fields: [
        { path: "task", label: "Task", hint: "detection: where objects are; classification: what a picture shows" },
        { path: "classes", label: "Classes", hint: "What it tells apart, as a list: car, bus, person" },
        { path: "class_map", label: "Names of the golden model", control: "lines", hint: "One class a line, where the golden model calls it otherwise: van = car, truck" },
      ],
    },
    {
      title: "Retraining",
      fields: [
        { path: "retraining.enabled", label: "Retrain", hint: "Off: its model stays as it is" },
        { path: "retraining.every_kth_window", label: "Every so many windows" },
        { path: "retraining.label_budget", label: "Label budget", unit: "frames", hint: "Labelled frames per window; empty: the site's" },
      ],
    },
    {
      title: "Stream",
      folded: true,
      fields: [
        { path: "max_fps", label: "Frames a second, at most", hint: "Empty: as they come" },
        { path: "stall_timeout_s", label: "Stalled after", unit: "s", hint: "Without a new picture for so long it counts as stalled" },
        { path: "seconds_per_picture", label: "Seconds per picture", unit: "s", hint: "For a folder of stills" },
      ],
    },
    {
      title: "Model",
      folded: true,
      fields: [
        { path: "inference.frame_rates", label: "Frame rates", hint: "That the planner may choose from, frames a second" },
        { path: "inference.resolutions", label: "Resolutions", hint: "That the planner may choose from, parts of the full size" },
        { path: "inference.score_threshold", label: "Score threshold" },
        { path: "student.architecture", label: "Architecture" },
        { path: "student.input_height", label: "Input height", unit: "px" },
        { path: "student.input_width", label: "Input width", unit: "px" },
        { path: "student.width", label: "Width" },
        { path: "student.last_layer_width", label: "Hidden layer" },
        { path: "student.weights", label: "First weights" },
      ],
    },
  ];
  return found.map((g) => ({ ...g, fields: g.fields.map((f) => ({ ...f, disabled: !admin && GUARDED.has(f.path) })) }));
}

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
    return <CameraForm key="new" {...props} camera={null} onDone={back} />;
  }
  if (chosen !== undefined && rest[1] === "zones") {
    return <ZonesForm key={`${chosen.id}-zones`} camera={chosen} state={live.find((c) => c.id === chosen.id)} changeable={may(me, "operator")} onSaved={again} />;
  }
  if (chosen !== undefined) return <CameraForm key={chosen.id} {...props} camera={chosen} onDone={back} />;

  const toggle = async (camera: CameraRecord): Promise<void> => {
    setBusy(camera.id);
    try {
      await ask(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", { enabled: !camera.settings.enabled });
      toast(`${camera.settings.name || camera.id} is ${camera.settings.enabled ? "off" : "on"}`);
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
                  <a href={href("settings", "cameras", c.id)}>{c.settings.name || c.id}</a>
                  {c.settings.name && <span class="quiet under">{c.id}</span>}
                </>
              ),
            },
            { key: "state", title: "State", cell: (c) => <CameraState camera={live.find((l) => l.id === c.id)} enabled={c.settings.enabled} /> },
            { key: "classes", title: "Tells apart", cell: (c) => c.settings.classes.join(", ") },
            { key: "zones", title: "Zones", cell: (c) => c.settings.zones?.map((z) => z.name).join(", ") || <span class="quiet">none</span> },
            {
              key: "actions",
              title: "Actions",
              cell: (c) => {
                const name = c.settings.name || c.id;
                return (
                  <span class="row-actions">
                    <a class="button" href={href("settings", "cameras", c.id)} aria-label={`${may(me, "operator") ? "Change" : "Show"} ${name}`}>
                      {may(me, "operator") ? "Change" : "Show"}
                    </a>
                    <a class="button" href={href("settings", "cameras", c.id, "zones")} aria-label={`Zones of ${name}`}>
                      Zones
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
      {removing && (
        <Confirm
          title={`Remove ${removing.settings.name || removing.id}?`}
          action="Remove"
          danger
          onClose={() => setRemoving(null)}
          onConfirm={async () => {
            await ask(`/cameras/${encodeURIComponent(removing.id)}`, "DELETE", undefined, TEST_MS);
            toast(`${removing.settings.name || removing.id} removed`);
            again();
          }}
        >
          <p>Its settings, zones among them, are forgotten. What was recorded stays until its retention ends. To pause it, switch it off instead.</p>
        </Confirm>
      )}
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

interface FormProps extends SectionProps {
  camera: CameraRecord | null;
  onDone: () => void;
}

/** A new camera as the form begins: what is required and not yet known is empty. */
function blank(root: Schema): Json {
  return { ...defaultsOf(root, "CameraSettings"), id: "", url: "", classes: [] };
}

function CameraForm({ root, me, camera, onDone }: FormProps) {
  const isNew = camera === null;
  const admin = full(me);
  const secrets = useAsked<{ name: string }[]>(admin ? "/secrets" : null).value?.map((s) => `secret:${s.name}`) ?? [];
  const [first] = useState<Json>(() => camera?.settings ?? blank(root));
  const form = useForm("camera", first);
  const changeable = isNew ? admin : may(me, "operator");
  const name = camera?.settings.name || camera?.id || "";

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    // A camera's first model is made before the answer comes.
    const answer = await form.save((draft, patch) =>
      isNew ? ask<CameraRecord>("/cameras", "POST", draft, TEST_MS) : ask<CameraRecord>(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", patch, TEST_MS),
    );
    if (answer === undefined) return;
    toast(isNew ? `${answer.settings.name || answer.id} added` : `${answer.settings.name || answer.id} changed`);
    onDone();
  };

  return (
    <section class="card" aria-labelledby="camera-title">
      <div class="card-head">
        <h2 id="camera-title">{isNew ? "Add a camera" : name}</h2>
        <span class="row-actions">
          {!isNew && <a href={href("settings", "cameras", camera.id, "zones")}>Zones</a>}
          <a href={href("settings", "cameras")}>All cameras</a>
        </span>
      </div>
      {!changeable ? <p class="quiet">{whyNot(isNew ? "admin" : "operator")}</p> : !admin && <p class="quiet">Address and password: {whyNot("admin")}</p>}
      <div class="camera-form">
        <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
          <SchemaFields root={root} model="CameraSettings" form={form} groups={groups(isNew, admin, secrets)} disabled={!changeable} />
          {changeable &&
            (isNew ? (
              <div class="actions">
                <button class="primary" type="submit" disabled={form.busy}>
                  {form.busy ? "Adding…" : "Add the camera"}
                </button>
                <a class="button" href={href("settings", "cameras")}>
                  Cancel
                </a>
              </div>
            ) : (
              <SaveBar form={form} />
            ))}
        </form>
        {admin && <ConnectionTest draft={form.draft} onProblems={form.object} />}
      </div>
    </section>
  );
}

function ConnectionTest({ draft, onProblems }: { draft: Json; onProblems: (error: unknown) => void }) {
  const [tested, setTested] = useState<Tested | null>(null);
  const [busy, setBusy] = useState(false);
  const test = async (): Promise<void> => {
    setBusy(true);
    setTested(null);
    // The connection can be tried before the rest is filled in.
    const named = typeof draft["id"] === "string" && draft["id"] !== "" ? draft["id"] : "new-camera";
    const classes = Array.isArray(draft["classes"]) && draft["classes"].length > 0 ? draft["classes"] : ["object"];
    try {
      setTested(await ask<Tested>("/cameras/test", "POST", { ...draft, id: named, classes }, TEST_MS));
    } catch (error) {
      onProblems(error);
      if (problemsOf(error).length === 0) setTested({ ok: false, width: 0, height: 0, fps: 0, codec: "", message: words(error) });
    } finally {
      setBusy(false);
    }
  };
  return (
    <aside class="connection" aria-label="Connection test">
      <button type="button" disabled={busy || draft["url"] === ""} onClick={() => void test()}>
        {busy ? "Connecting…" : "Test the connection"}
      </button>
      <div role="status">
        {busy && <p class="quiet">This takes up to some ten seconds.</p>}
        {tested && (
          <>
            <p>
              <Badge tone={tested.ok ? "good" : "bad"}>{tested.ok ? "A picture came" : "No picture"}</Badge>
            </p>
            {tested.ok ? (
              <p>
                {tested.width} × {tested.height} pixels, {tested.fps.toFixed(1)} frames a second, {tested.codec}
              </p>
            ) : (
              <p class="problem">{tested.message}</p>
            )}
          </>
        )}
      </div>
      {tested?.picture ? (
        <img class="preview" src={`data:image/jpeg;base64,${tested.picture}`} alt="The picture that the camera sent" />
      ) : (
        !busy && tested === null && <p class="quiet">Shows a picture of the camera. Nothing is kept.</p>
      )}
    </aside>
  );
}

/** A picture fetched anew whenever `when` changes; null where none is to be had. */
function usePicture(path: string, when: string): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    let wanted = true;
    fetch(pictureUrl(path))
      .then(async (answer) => (answer.ok ? URL.createObjectURL(await answer.blob()) : null))
      .catch(() => null)
      .then((made) => {
        if (wanted) setUrl(made);
        else if (made !== null) URL.revokeObjectURL(made);
      });
    return () => {
      wanted = false;
    };
  }, [path, when]);
  useEffect(() => () => void (url !== null && URL.revokeObjectURL(url)), [url]);
  return url;
}

interface ZonesProps {
  camera: CameraRecord;
  state: Camera | undefined;
  changeable: boolean;
  onSaved: () => void;
}

function ZonesForm({ camera, state, changeable, onSaved }: ZonesProps) {
  const kept = camera.settings.zones ?? [];
  const [zones, setZones] = useState<Zone[]>(kept);
  const [taken, setTaken] = useState(0);
  const picture = usePicture(`/cameras/${encodeURIComponent(camera.id)}/snapshot.jpg?width=1280`, `${taken} ${state?.state}`);
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const dirty = JSON.stringify(zones) !== JSON.stringify(kept);
  const [found] = useCheck("camera", dirty ? { ...camera.settings, zones } : null);
  const problems = [...problemsOf(failure), ...found]
    .map((p) => {
      const told = /^(zones\[\d+\][\w.[\]]*): (.+)$/s.exec(p.allowed);
      return told ? { ...p, path: told[1] ?? p.path, allowed: told[2] ?? p.allowed } : p;
    })
    .filter((p, n, all) => all.findIndex((o) => o.path === p.path && o.allowed === p.allowed) === n);
  const name = camera.settings.name || camera.id;
  const ratio = state !== undefined && state.width > 0 && state.height > 0 ? state.width / state.height : 16 / 9;

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      const answer = await ask<CameraRecord>(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", { zones }, TEST_MS);
      setZones(answer.settings.zones ?? zones);
      toast(`Zones of ${name} saved`);
      onSaved();
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <section class="card" aria-labelledby="zones-title">
      <div class="card-head">
        <h2 id="zones-title">Zones of {name}</h2>
        <span class="row-actions">
          <button type="button" onClick={() => setTaken(taken + 1)}>
            New picture
          </button>
          <a href={href("settings", "cameras", camera.id)}>Settings</a>
          <a href={href("settings", "cameras")}>All cameras</a>
        </span>
      </div>
      <p class="quiet lead">
        Rules can look at zones: alarm when somebody stays in one. {!changeable && whyNot("operator")}
      </p>
      <form onSubmit={(e) => void save(e)} noValidate autoComplete="off">
        <ZoneEditor
          picture={picture}
          ratio={ratio}
          zones={zones}
          classes={camera.settings.classes}
          problems={problems}
          disabled={!changeable}
          onChange={setZones}
        />
        {problems.filter((p) => !p.path.startsWith("zones[")).map((p) => (
          <p key={p.path + p.allowed} class="problem" role="alert">
            {p.path}: allowed: {p.allowed}
          </p>
        ))}
        {failure !== null && problemsOf(failure).length === 0 && (
          <p class="problem" role="alert">
            Not saved: {words(failure)}
          </p>
        )}
        {changeable && (
          <div class={dirty ? "save-bar dirty" : "save-bar"}>
            <button class="primary" type="submit" disabled={!dirty || busy}>
              {busy ? "Saving…" : "Save the zones"}
            </button>
            {dirty && (
              <button type="button" disabled={busy} onClick={() => setZones(kept)}>
                Undo
              </button>
            )}
          </div>
        )}
      </form>
    </section>
  );
}
