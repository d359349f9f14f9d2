/** A camera's settings: one form for the camera's page and for the settings, made from the server's own schema. Only what
 * was changed is sent. */

import { useState } from "preact/hooks";

import type { CameraTest, KnownFiles, SecretAnswer } from "../answers";
import type { CameraRecord, Me, Problem } from "../api";
import { ask, problemsOf, words } from "../api";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm } from "../parts/dialog";
import { TextField } from "../parts/form";
import { SaveBar } from "../parts/save_bar";
import type { Form, Json, Schema, Spec } from "../parts/schema_form";
import { SchemaFields, defaultsOf, useForm } from "../parts/schema_form";
import { toast } from "../parts/toasts";
import { href } from "../router";
import { may, seesAll, whyNot } from "../session";
import { groups } from "./camera_form_groups";
import { CameraSearch } from "./camera_search";
import "../styles/settings.css";

/** A camera's first model is made before the answer comes, and a connection is tried for some ten seconds. */
export const CAMERA_MS = 40_000;

/** Whether a user is an administrator who sees every camera. */
export function full(me: Me): boolean {
  return may(me, "admin") && seesAll(me);
}

export function cameraTitle(camera: CameraRecord): string {
  return camera.settings.name || camera.id;
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

/** Keeps a password as a secret; the answer is the setting that names it, or nothing where none was typed. */
type WithSecret = (name: string) => Promise<Json>;

interface Password {
  typed: string;
  change: (text: string) => void;
  withSecret: WithSecret;
}

/** A password as it is typed. It goes where it can be written but not read; the settings hold only its name. */
function usePassword(): Password {
  const [typed, setTyped] = useState("");
  const withSecret = async (name: string): Promise<Json> => {
    if (typed === "") return {};
    const kept = name.slice(0, 63);
    await ask(`/secrets/${encodeURIComponent(kept)}`, "PUT", { value: typed });
    return { password_from: `secret:${kept}` };
  };
  return { typed, change: setTyped, withSecret };
}

/** `reference`: the secret that holds the password now; empty: none. */
function passwordField(password: Password, reference: string, shown: boolean): Spec {
  return {
    path: "(password)",
    shown: () => shown,
    render: (problems: Problem[]) => (
      <TextField
        label="Password"
        path="(password)"
        problems={problems}
        value={password.typed}
        onChange={password.change}
        hint={reference === "" ? "Kept as a secret: it can be replaced, not read." : `Kept as ${reference}. Empty: it stays. It can be replaced, not read.`}
        input={{ type: "password", autocomplete: "new-password" }}
      />
    ),
  };
}

/** Sends all of a new camera, and only the changes of one that is there. */
function send(camera: CameraRecord | null, form: Form, withSecret: WithSecret): Promise<CameraRecord | undefined> {
  return form.save(async (draft, patch) => {
    if (camera === null) return ask<CameraRecord>("/cameras", "POST", { ...draft, ...(await withSecret(`camera-${String(draft["id"])}`)) }, CAMERA_MS);
    const body = { ...patch, ...(await withSecret(`camera-${camera.id}`)) };
    return ask<CameraRecord>(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", body, CAMERA_MS);
  });
}

export function CameraForm({ root, me, camera, onSaved, onRemoved }: Props) {
  const isNew = camera === null;
  const admin = full(me);
  const changeable = isNew ? admin : may(me, "operator");
  const secrets = useAsked<SecretAnswer[]>(admin ? "/secrets" : null).value?.map((s) => `secret:${s.name}`) ?? [];
  const catalogue = useAsked<KnownFiles>(may(me, "operator") ? "/models/catalogue" : null);
  const known = [...(catalogue.value?.descriptions ?? [])];
  const [empty] = useState<Json>(() => blank(root));
  const form = useForm("camera", camera?.settings ?? empty);
  const password = usePassword();
  const { withSecret } = password;
  const secret = password.typed !== "";

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await send(camera, form, withSecret);
    if (answer === undefined) return;
    password.change("");
    toast(isNew ? `${cameraTitle(answer)} added` : `${cameraTitle(answer)}: settings saved`);
    onSaved(answer);
  };
  const pick = (url: string, name: string): void => {
    form.replace({ ...form.draft, url, ...(form.draft["name"] === "" ? { name: name.slice(0, 120) } : {}) });
    toast(`The address of ${name} is in the form`);
  };
  const field = passwordField(password, String(form.draft["password_from"] ?? ""), admin);

  return (
    <>
      {!changeable ? <p class="quiet">{whyNot(isNew ? "admin" : "operator")}</p> : !admin && <p class="quiet">Address and password: {whyNot("admin")}</p>}
      {isNew && admin && <CameraSearch draft={form.draft} withSecret={withSecret} secret={secret} onPick={pick} />}
      <div class="camera-form">
        <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
          <SchemaFields
            root={root}
            model="CameraSettings"
            form={form}
            groups={groups(isNew, admin, secrets, [field], known)}
            disabled={!changeable}
            unsaved={secret}
          />
          {changeable && (isNew ? <AddOrCancel busy={form.busy} /> : <SaveOrUndo form={form} password={password} />)}
        </form>
        {admin && <ConnectionTest draft={form.draft} withSecret={withSecret} secret={secret} onProblems={form.object} />}
      </div>
      {camera !== null && <Removal camera={camera} offered={admin && onRemoved !== undefined} onRemoved={() => onRemoved?.()} />}
    </>
  );
}

function AddOrCancel({ busy }: { busy: boolean }) {
  return (
    <div class="actions">
      <button class="primary" type="submit" disabled={busy}>
        {busy ? "Adding…" : "Add the camera"}
      </button>
      <a class="button" href={href("settings", "cameras")}>
        Cancel
      </a>
    </div>
  );
}

function SaveOrUndo({ form, password }: { form: Form; password: Password }) {
  const secret = password.typed !== "";
  return (
    <SaveBar
      dirty={secret || form.dirty}
      busy={form.busy}
      count={Object.keys(form.patch).length + Number(secret)}
      onUndo={() => {
        form.reset();
        password.change("");
      }}
    />
  );
}

/** The button that removes the camera, and its question. */
function Removal({ camera, offered, onRemoved }: { camera: CameraRecord; offered: boolean; onRemoved: () => void }) {
  const [removing, setRemoving] = useState(false);
  return (
    <>
      {offered && (
        <p class="remove">
          <button type="button" class="danger" onClick={() => setRemoving(true)}>
            Remove the camera
          </button>
        </p>
      )}
      {removing && <RemoveCamera camera={camera} onClose={() => setRemoving(false)} onRemoved={onRemoved} />}
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
  withSecret: WithSecret;
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
