/** A camera's settings: its form is made from the server's own schema, and only what was changed is sent. */

import { useState } from "preact/hooks";

import type { Camera, Me } from "../api";
import { ask, words } from "../api";
import type { Asked } from "../parts/asking";
import { useAsked } from "../parts/asking";
import { Confirm } from "../parts/dialog";
import { TextField } from "../parts/form";
import type { Group, Schema } from "../parts/schema_form";
import { SchemaFields, useForm } from "../parts/schema_form";
import { ErrorBox, Loading } from "../parts/states";
import { toast } from "../parts/toasts";
import { go, href } from "../router";
import { may, whyNot } from "../session";
import type { CameraDetail } from "./camera";

interface Tested {
  ok: boolean;
  width: number;
  height: number;
  fps: number;
  codec: string;
  message: string;
  /** JPEG in base64. */
  picture: string | null;
}

const TEST_TIMEOUT_MS = 30_000;

function groups(admin: boolean): Group[] {
  const reach = { disabled: !admin };
  return [
    {
      title: "Camera",
      fields: [
        { path: "name", label: "Name" },
        { path: "enabled", label: "Switched on", hint: "Off: not connected, not retrained; its history stays." },
      ],
    },
    {
      title: "Connection",
      fields: [
        { path: "url", label: "Address", hint: "With rtsp:// or rtsps://, without a password; or a file or folder on the box.", ...reach },
        { path: "username", label: "User name", ...reach },
        { path: "transport", label: "Transport", ...reach },
        { path: "stall_timeout_s", label: "Lost after", unit: "s", hint: "So long without a picture." },
        { path: "max_fps", label: "Frames a second at most", hint: "Empty: as many as the camera sends." },
      ],
    },
    {
      title: "What it answers",
      fields: [
        { path: "classes", label: "Classes", hint: "Separated by commas. With other classes its model starts anew." },
        { path: "inference.score_threshold", label: "Least certainty" },
        { path: "inference.frame_rates", label: "Frames a second to choose from", hint: "The planner picks among them." },
        { path: "inference.resolutions", label: "Sizes to choose from", hint: "1 is the full size." },
      ],
    },
    {
      title: "Retraining",
      fields: [
        { path: "retraining.enabled", label: "Retrain" },
        { path: "retraining.every_kth_window", label: "Every so many windows", unit: "windows" },
        { path: "retraining.label_budget", label: "Labelled pictures per window" },
      ],
    },
  ];
}

interface Props {
  camera: Camera;
  detail: Asked<CameraDetail>;
  me: Me;
}

export function SettingsTab({ camera, detail, me }: Props) {
  const schema = useAsked<Schema>("/schema/site");
  if (detail.value === null || schema.value === null) {
    const failed = detail.value === null ? detail : schema;
    return failed.error !== null ? (
      <ErrorBox what="The settings could not be loaded" error={failed.error} onRetry={failed.again} />
    ) : (
      <Loading />
    );
  }
  return <SettingsForm key={camera.id} camera={camera} settings={detail.value.settings} root={schema.value} again={detail.again} me={me} />;
}

interface FormProps {
  camera: Camera;
  settings: CameraDetail["settings"];
  root: Schema;
  again: () => void;
  me: Me;
}

function SettingsForm({ camera, settings, root, again, me }: FormProps) {
  const operator = may(me, "operator");
  const admin = may(me, "admin") && me.cameras === null;
  const form = useForm("camera", settings);
  const [password, setPassword] = useState("");
  const [test, setTest] = useState<Tested | "running" | { failure: string } | null>(null);
  const [removing, setRemoving] = useState(false);
  const reference = String(settings["password_from"] ?? "");
  const changed = form.dirty || password !== "";

  /** The password goes where it can be written but not read; the settings hold only its name. */
  const withSecret = async (name: string): Promise<Record<string, unknown>> => {
    if (password === "") return {};
    await ask(`/secrets/${encodeURIComponent(name)}`, "PUT", { value: password });
    return { password_from: `secret:${name}` };
  };

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const saved = await form.save(async (_, patch) => {
      const body = { ...patch, ...(await withSecret(`camera-${camera.id}`.slice(0, 63))) };
      return ask<CameraDetail>(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", body, TEST_TIMEOUT_MS);
    });
    if (saved === undefined) return;
    setPassword("");
    setTest(null);
    again();
    toast(`${camera.name}: settings saved`);
  };

  const tryIt = async (): Promise<void> => {
    setTest("running");
    const trial = `trial-${camera.id}`.slice(0, 63);
    try {
      // Under a name of its own: the password in use stays as it is until one saves.
      const body = { ...form.draft, ...(await withSecret(trial)) };
      setTest(await ask<Tested>("/cameras/test", "POST", body, TEST_TIMEOUT_MS));
    } catch (error) {
      form.object(error);
      setTest({ failure: words(error) });
    } finally {
      if (password !== "") ask(`/secrets/${encodeURIComponent(trial)}`, "DELETE").catch(() => undefined);
    }
  };

  return (
    <form ref={form.place} class="card camera-settings" onSubmit={(event) => void save(event)} noValidate autoComplete="off">
      {!operator && <p class="quiet">You see the settings. {whyNot("operator")}</p>}
      {operator && !admin && <p class="quiet small">Address and login of a camera are changed by an administrator of all cameras.</p>}
      <p>
        <a href={href("settings", "cameras", camera.id, "zones")}>{operator ? "Draw zones on the picture" : "Zones"}</a>
      </p>
      <SchemaFields root={root} model="CameraSettings" form={form} groups={groups(admin)} disabled={!operator} />
      {admin && (
        <fieldset class="form-group">
          <legend>Password</legend>
          <TextField
            label="New password"
            path="password_from"
            problems={form.problems}
            value={password}
            onChange={setPassword}
            hint={
              reference === ""
                ? "None is kept. What you enter is kept as a secret: it can be replaced, not read."
                : `Kept as ${reference}. Empty: it stays. What you enter can be replaced, not read.`
            }
            input={{ type: "password", autocomplete: "new-password" }}
          />
        </fieldset>
      )}
      {test !== null && <TestResult test={test} name={camera.name} />}
      {operator && (
        <div class="actions">
          <button type="submit" class="primary" disabled={!changed || form.busy}>
            {form.busy ? "Saving…" : "Save"}
          </button>
          {admin && (
            <button type="button" disabled={test === "running"} onClick={() => void tryIt()}>
              {test === "running" ? "Connecting…" : "Test the connection"}
            </button>
          )}
          {changed && (
            <button
              type="button"
              onClick={() => {
                form.reset();
                setPassword("");
                setTest(null);
              }}
            >
              Undo
            </button>
          )}
          {admin && (
            <button type="button" class="danger push" onClick={() => setRemoving(true)}>
              Remove the camera
            </button>
          )}
        </div>
      )}
      {removing && (
        <Confirm
          title={`Remove ${camera.name}`}
          action="Remove"
          danger
          onClose={() => setRemoving(false)}
          onConfirm={async () => {
            await ask(`/cameras/${encodeURIComponent(camera.id)}`, "DELETE");
            toast(`${camera.name} was removed`);
            go(href("wall"));
          }}
        >
          <p>
            Its worker stops, and it is not retrained any more. What was recorded stays until its retention ends. This cannot be
            undone; a camera that is added again starts with a new model.
          </p>
        </Confirm>
      )}
    </form>
  );
}

function TestResult({ test, name }: { test: Tested | "running" | { failure: string }; name: string }) {
  if (test === "running") return <Loading what="Connecting to the camera" />;
  if ("failure" in test) return <ErrorBox what="The test was not done" error={test.failure} />;
  if (!test.ok) return <ErrorBox what="No picture came" error={test.message} />;
  return (
    <figure class="tested" role="status">
      {test.picture !== null && <img src={`data:image/jpeg;base64,${test.picture}`} alt={`What ${name} shows now`} />}
      <figcaption>
        A picture came: {test.width} × {test.height} pixels, {test.codec}
        {test.fps > 0 && `, ${test.fps.toFixed(1)} frames a second`}.
      </figcaption>
    </figure>
  );
}
