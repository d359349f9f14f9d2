/** A camera's settings: one form for the camera's page and for the settings, made from the server's own schema. Only what
 * was changed is sent. */

import { useState } from "preact/hooks";

import type { CameraTest, KnownDescription, KnownFiles, SecretAnswer } from "../answers";
import type { CameraRecord, Me, Problem } from "../api";
import { ask, problemsOf, words } from "../api";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm } from "../parts/dialog";
import { TextField } from "../parts/form";
import { SaveBar } from "../parts/save_bar";
import type { Group, Json, Schema } from "../parts/schema_form";
import { SchemaFields, defaultsOf, useForm } from "../parts/schema_form";
import { toast } from "../parts/toasts";
import { href } from "../router";
import { may, seesAll, whyNot } from "../session";
import { CameraSearch } from "./camera_search";
import "../styles/settings.css";

/** A camera's first model is made before the answer comes, and a connection is tried for some ten seconds. */
export const CAMERA_MS = 40_000;
/** Fields that only an administrator may change: they reach into the network or name a secret. */
const GUARDED = new Set(["url", "username", "password_from", "transport", "student.weights", "student.model"]);

/** Whether a user is an administrator who sees every camera. */
export function full(me: Me): boolean {
  return may(me, "admin") && seesAll(me);
}

export function cameraTitle(camera: CameraRecord): string {
  return camera.settings.name || camera.id;
}

/** The shipped students with their cost on this box, in words. */
function studentWords(known: KnownDescription[]): string {
  const models = known.map((k) => {
    const cost = k.answer_ms === null ? "not measured yet" : `${k.answer_ms.toFixed(0)} ms an answer on this box`;
    return `${k.name} (${k.here ? cost : "not here: magpie models pull " + k.name})`;
  });
  return `A published detector; empty: the site's. ${models.join(", ")}`;
}

function groups(isNew: boolean, admin: boolean, secrets: string[], password: Group["fields"], known: KnownDescription[]): Group[] {
  const students = studentWords(known);
  const names = known.map((k) => k.name);
  const found: Group[] = [
    {
      title: "Camera",
      fields: [
        ...(isNew ? [{ path: "id", label: "Id", hint: "Small letters, digits, - and _; it does not change" }] : []),
        { path: "name", label: "Name", hint: "For people; empty: the id" },
        { path: "enabled", label: "Switched on", hint: "Off: not connected, not retrained; its history stays" },
      ],
    },
    {
      title: "Connection",
      fields: [
        { path: "url", label: "Address", hint: "rtsp://, rtsps://, or the path of a file or folder. Without a password in it." },
        { path: "transport", label: "Transport", hint: "tcp loses no packets; udp for cameras that know nothing else" },
        { path: "username", label: "User name" },
        ...password,
        { path: "stall_timeout_s", label: "Lost after", unit: "s", hint: "So long without a picture" },
        { path: "max_fps", label: "Frames a second, at most", hint: "Empty: as they come" },
      ],
    },
    {
      title: "What it watches",
      fields: [
        { path: "task", label: "Task", hint: "detection: where objects are; classification: what a picture shows" },
        { path: "classes", label: "Classes", hint: "Kinds of objects, as a list: car, bus, person. With other classes its model starts anew." },
        { path: "class_map", label: "Names of the golden model", control: "lines", hint: "One class a line, where the golden model calls it otherwise: van = car, truck" },
      ],
    },
    {
      title: "Retraining",
      fields: [
        { path: "retraining.enabled", label: "Retrain", hint: "Off: its model stays as it is" },
        { path: "retraining.every_kth_window", label: "Every so many windows", unit: "windows" },
        { path: "retraining.label_budget", label: "Label budget", unit: "frames", hint: "Labelled frames per window; empty: the site's" },
      ],
    },
    {
      title: "Clips",
      folded: true,
      fields: [
        { path: "clips.enabled", label: "Keep video in memory", hint: "The last seconds of its video, for clips of alarms and moments" },
        { path: "clips.before_s", label: "Before", unit: "s", hint: "A clip begins so long before its moment; empty: the site's" },
        { path: "clips.after_s", label: "After", unit: "s", hint: "Empty: the site's" },
      ],
    },
    {
      title: "More",
      folded: true,
      fields: [
        { path: "password_from", label: "Password reference", hint: "Where the password is kept: secret:NAME (Settings, Secrets), or what the configuration file allows", suggestions: secrets },
        { path: "seconds_per_picture", label: "Seconds per picture", unit: "s", hint: "For a folder of stills" },
        { path: "inference.frame_rates", label: "Frame rates", hint: "That the planner may choose from, frames a second" },
        { path: "inference.resolutions", label: "Resolutions", hint: "That the planner may choose from, parts of the full size" },
        { path: "inference.score_threshold", label: "Least certainty", hint: "Objects that the model is less sure of are not reported; empty: chosen on past labels" },
        { path: "inference.region", label: "Looks at", hint: "auto: the part that past labels show to matter; off: the whole picture; or left,top,right,bottom in fractions: 0,0.2,1,1" },
        { path: "inference.shape", label: "Shape of the input", hint: "camera: the camera's proportions, at no more pixels; model: as the model was published" },
      ],
    },
    {
      title: "Model",
      folded: true,
      fields: [
        { path: "student.model", label: "Begins as", hint: students, suggestions: names },
        { path: "student.class_map", label: "Names of the published detector", control: "lines", hint: "One class a line, where it calls it otherwise: van = car, truck. Empty: as the golden model's" },
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

/** a new camera as the form begins: what is required and not yet known is empty. */
function blank(root: Schema): Json {
  return { ...defaultsOf(root, "CameraSettings"), id: "", url: "", classes: [] };
}

interface Props {
  root: Schema;
  me: Me;
  /** Null: a new one. */
  camera: CameraRecord | null;
  /** The settings that the server keeps now. */
  onSaved: (saved: CameraRecord) => void;
  onRemoved?: () => void;
}

export function CameraForm({ root, me, camera, onSaved, onRemoved }: Props) {
  const isNew = camera === null;
  const admin = full(me);
  const changeable = isNew ? admin : may(me, "operator");
  const secrets = useAsked<SecretAnswer[]>(admin ? "/secrets" : null).value?.map((s) => `secret:${s.name}`) ?? [];
  const catalogue = useAsked<KnownFiles>(may(me, "operator") ? "/models/catalogue" : null);
  const known = (catalogue.value?.descriptions ?? []).filter((d) => d.kind === "student");
  const [empty] = useState<Json>(() => blank(root));
  const form = useForm("camera", camera?.settings ?? empty);
  const [password, setPassword] = useState("");
  const [removing, setRemoving] = useState(false);
  const reference = String(form.draft["password_from"] ?? "");
  const changed = password !== "" || (isNew ? form.unsaved : form.dirty);

  /** The password goes where it can be written but not read; the settings hold only its name. */
  const withSecret = async (name: string): Promise<Json> => {
    if (password === "") return {};
    const kept = name.slice(0, 63);
    await ask(`/secrets/${encodeURIComponent(kept)}`, "PUT", { value: password });
    return { password_from: `secret:${kept}` };
  };

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await form.save(async (draft, patch) => {
      if (isNew) return ask<CameraRecord>("/cameras", "POST", { ...draft, ...(await withSecret(`camera-${String(draft["id"])}`)) }, CAMERA_MS);
      const body = { ...patch, ...(await withSecret(`camera-${camera.id}`)) };
      return ask<CameraRecord>(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", body, CAMERA_MS);
    });
    if (answer === undefined) return;
    setPassword("");
    toast(isNew ? `${cameraTitle(answer)} added` : `${cameraTitle(answer)}: settings saved`);
    onSaved(answer);
  };

  const passwordField = {
    path: "(password)",
    shown: () => admin,
    render: (problems: Problem[]) => (
      <TextField
        label="Password"
        path="(password)"
        problems={problems}
        value={password}
        onChange={setPassword}
        hint={reference === "" ? "Kept as a secret: it can be replaced, not read." : `Kept as ${reference}. Empty: it stays. It can be replaced, not read.`}
        input={{ type: "password", autocomplete: "new-password" }}
      />
    ),
  };

  return (
    <>
      {!changeable ? <p class="quiet">{whyNot(isNew ? "admin" : "operator")}</p> : !admin && <p class="quiet">Address and password: {whyNot("admin")}</p>}
      {isNew && admin && (
        <CameraSearch
          draft={form.draft}
          withSecret={withSecret}
          secret={password !== ""}
          onPick={(url, name) => {
            form.replace({ ...form.draft, url, ...(form.draft["name"] === "" ? { name: name.slice(0, 120) } : {}) });
            toast(`The address of ${name} is in the form`);
          }}
        />
      )}
      <div class="camera-form">
        <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
          <SchemaFields
            root={root}
            model="CameraSettings"
            form={form}
            groups={groups(isNew, admin, secrets, [passwordField], known)}
            disabled={!changeable}
            unsaved={password !== ""}
          />
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
              <SaveBar
                dirty={changed}
                busy={form.busy}
                count={Object.keys(form.patch).length + Number(password !== "")}
                onUndo={() => {
                  form.reset();
                  setPassword("");
                }}
              />
            ))}
        </form>
        {admin && <ConnectionTest draft={form.draft} withSecret={withSecret} secret={password !== ""} onProblems={form.object} />}
      </div>
      {!isNew && admin && onRemoved && (
        <p class="remove">
          <button type="button" class="danger" onClick={() => setRemoving(true)}>
            Remove the camera
          </button>
        </p>
      )}
      {!isNew && removing && <RemoveCamera camera={camera} onClose={() => setRemoving(false)} onRemoved={() => onRemoved?.()} />}
    </>
  );
}

export function RemoveCamera({ camera, onClose, onRemoved }: { camera: CameraRecord; onClose: () => void; onRemoved: () => void }) {
  const name = cameraTitle(camera);
  return (
    <Confirm
      title={`Remove ${name}?`}
      action="Remove"
      danger
      onClose={onClose}
      onConfirm={async () => {
        await ask(`/cameras/${encodeURIComponent(camera.id)}`, "DELETE", undefined, CAMERA_MS);
        toast(`${name} removed`);
        onRemoved();
      }}
    >
      <p>
        Its worker stops, and its settings, zones among them, are forgotten. Its records stay until their retention ends. This
        cannot be undone; to pause it, switch it off instead.
      </p>
    </Confirm>
  );
}

interface TestProps {
  draft: Json;
  withSecret: (name: string) => Promise<Json>;
  /** A password was typed: it is kept for the time of the trial. */
  secret: boolean;
  onProblems: (error: unknown) => void;
}

function ConnectionTest({ draft, withSecret, secret, onProblems }: TestProps) {
  const [tested, setTested] = useState<CameraTest | null>(null);
  const [busy, setBusy] = useState(false);
  const test = async (): Promise<void> => {
    setBusy(true);
    setTested(null);
    // The connection can be tried before the rest is filled in.
    const named = typeof draft["id"] === "string" && draft["id"] !== "" ? draft["id"] : "new-camera";
    const classes = Array.isArray(draft["classes"]) && draft["classes"].length > 0 ? draft["classes"] : ["object"];
    // Under a name of its own: the password in use stays as it is until one saves.
    const trial = `trial-${named}`.slice(0, 63);
    try {
      setTested(await ask<CameraTest>("/cameras/test", "POST", { ...draft, id: named, classes, ...(await withSecret(trial)) }, CAMERA_MS));
    } catch (error) {
      onProblems(error);
      if (problemsOf(error).length === 0) setTested({ ok: false, width: 0, height: 0, fps: 0, codec: "", seconds: 0, fault: null, message: words(error), picture: null });
    } finally {
      if (secret) ask(`/secrets/${encodeURIComponent(trial)}`, "DELETE").catch(() => undefined);
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
                {tested.width} × {tested.height} pixels, {tested.codec}
                {tested.fps > 0 && `, ${tested.fps.toFixed(1)} frames a second`}
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
