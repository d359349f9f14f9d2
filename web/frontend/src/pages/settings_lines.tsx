/** The lines of a camera that objects are counted at. */

import { useState } from "preact/hooks";

import type { Camera, CameraRecord } from "../api";
import { ask, problemsOf, words } from "../api";
import { useCheck } from "../parts/form";
import type { Line } from "../parts/line_editor";
import { LineEditor } from "../parts/line_editor";
import { usePicture } from "../parts/picture";
import { SaveBar } from "../parts/save_bar";
import { toast } from "../parts/toasts";
import { Unsaved } from "../parts/unsaved";
import { href } from "../router";
import { whyNot } from "../session";
import { CAMERA_MS, cameraTitle } from "./camera_form";

interface Props {
  camera: CameraRecord;
  state: Camera | undefined;
  changeable: boolean;
  onSaved: () => void;
}

export function LinesForm({ camera, state, changeable, onSaved }: Props) {
  const kept = camera.settings.lines;
  const [lines, setLines] = useState<Line[]>(kept);
  const [taken, setTaken] = useState(0);
  const picture = usePicture(`/cameras/${encodeURIComponent(camera.id)}/snapshot.jpg?width=1280`, `${taken} ${state?.state}`);
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const dirty = JSON.stringify(lines) !== JSON.stringify(kept);
  const [found] = useCheck("camera", dirty ? { ...camera.settings, lines } : null);
  const problems = [...problemsOf(failure), ...found].filter(
    (p, n, all) => all.findIndex((o) => o.path === p.path && o.allowed === p.allowed) === n,
  );
  const name = cameraTitle(camera);
  const ratio = state !== undefined && state.width > 0 && state.height > 0 ? state.width / state.height : 16 / 9;

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      const answer = await ask<CameraRecord>(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", { lines }, CAMERA_MS);
      setLines(answer.settings.lines);
      toast(`Lines of ${name} saved`);
      onSaved();
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <section class="card" aria-labelledby="lines-title">
      <div class="card-head">
        <h2 id="lines-title">Lines of {name}</h2>
        <span class="row-actions">
          <button type="button" onClick={() => setTaken(taken + 1)}>
            New picture
          </button>
          <a href={href("counts", camera.id)}>Counts</a>
          <a href={href("settings", "cameras", camera.id)}>Settings</a>
        </span>
      </div>
      <p class="quiet lead">Objects are counted when they cross a line, once in each direction. {!changeable && whyNot("operator")}</p>
      <form onSubmit={(e) => void save(e)} noValidate autoComplete="off">
        <LineEditor picture={picture} ratio={ratio} lines={lines} classes={camera.settings.classes} problems={problems} disabled={!changeable} onChange={setLines} />
        {problems
          .filter((p) => !p.path.startsWith("lines["))
          .map((p) => (
            <p key={p.path + p.allowed} class="problem" role="alert">
              {p.path}: allowed: {p.allowed}
            </p>
          ))}
        {failure !== null && problemsOf(failure).length === 0 && (
          <p class="problem" role="alert">
            Not saved: {words(failure)}
          </p>
        )}
        <Unsaved when={dirty && changeable} />
        {changeable && <SaveBar dirty={dirty} busy={busy} what="Save the lines" onUndo={() => setLines(kept)} />}
      </form>
    </section>
  );
}
