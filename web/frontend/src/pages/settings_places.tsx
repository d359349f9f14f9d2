/** The places of a camera that are drawn on its picture: zones for rules and counts, lines for counts. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { MaskSettings, StateOfCamera } from "../answers";
import type { CameraRecord, Problem } from "../api";
import { ask, problemsOf, words } from "../api";
import { useCheck } from "../parts/form";
import type { Line } from "../parts/line_editor";
import { LineEditor } from "../parts/line_editor";
import type { EditorProps } from "../parts/place_editor";
import { capital } from "../parts/place_editor";
import { usePicture } from "../parts/picture";
import { SaveBar } from "../parts/save_bar";
import { toast } from "../parts/toasts";
import { Unsaved } from "../parts/unsaved";
import type { Zone } from "../parts/zone_editor";
import { ZoneEditor } from "../parts/zone_editor";
import { href } from "../router";
import { whyNot } from "../session";
import { CAMERA_MS, cameraTitle } from "./camera_form";

interface Props {
  camera: CameraRecord;
  state: StateOfCamera | undefined;
  changeable: boolean;
  onSaved: () => void;
}

export function ZonesForm(props: Props) {
  return (
    <PlacesForm<Zone>
      {...props}
      field="zones"
      kept={props.camera.settings.zones}
      read={(answer) => answer.settings.zones}
      lead="Rules can look at zones: alarm when a person stays in one."
      links={
        <>
          <a href={href("settings", "cameras", props.camera.id)}>Settings</a>
          <a href={href("settings", "cameras")}>All cameras</a>
        </>
      }
      editor={(given, zones) => <ZoneEditor {...given} places={zones} />}
    />
  );
}

export function LinesForm(props: Props) {
  return (
    <PlacesForm<Line>
      {...props}
      field="lines"
      kept={props.camera.settings.lines}
      read={(answer) => answer.settings.lines}
      lead="Objects are counted when they cross a line, once in each direction."
      links={
        <>
          <a href={href("counts", props.camera.id)}>Counts</a>
          <a href={href("settings", "cameras", props.camera.id)}>Settings</a>
        </>
      }
      editor={(given, lines) => <LineEditor {...given} places={lines} />}
    />
  );
}

export function MasksForm(props: Props) {
  const plain = (masks: Zone[]) => masks.map(({ name, polygon }) => ({ name, polygon }));
  return (
    <PlacesForm<MaskSettings>
      {...props}
      field="masks"
      role="admin"
      kept={props.camera.settings.masks}
      read={(answer) => answer.settings.masks}
      lead="The area under a mask is blacked out before anybody sees it: in live pictures, records, labels and clips. Pictures that were kept before stay as they are."
      links={
        <>
          <a href={href("settings", "cameras", props.camera.id)}>Settings</a>
          <a href={href("settings", "cameras")}>All cameras</a>
        </>
      }
      editor={({ onChange, ...given }, masks) => (
        <ZoneEditor {...given} noun="mask" places={masks.map((m) => ({ ...m, classes: [] }))} onChange={(changed) => onChange(plain(changed))} />
      )}
    />
  );
}

/** The properties of an editor beside its places. */
type Given<P> = Omit<EditorProps<P>, "places">;

interface PlacesProps<Place> extends Props {
  /** The field of the camera's settings. */
  field: "zones" | "lines" | "masks";
  /** The role that may change them. */
  role?: "operator" | "admin";
  kept: Place[];
  read: (answer: CameraRecord) => Place[];
  lead: string;
  links: ComponentChildren;
  editor: (given: Given<Place>, places: Place[]) => ComponentChildren;
}

function PlacesForm<Place>({ camera, state, changeable, onSaved, field, role = "operator", kept, read, lead, links, editor }: PlacesProps<Place>) {
  const [places, setPlaces] = useState<Place[]>(kept);
  const [taken, setTaken] = useState(0);
  const picture = usePicture(`/cameras/${encodeURIComponent(camera.id)}/snapshot.jpg?width=1280`, `${taken} ${state?.state}`);
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const dirty = JSON.stringify(places) !== JSON.stringify(kept);
  const [found] = useCheck("camera", dirty ? { ...camera.settings, [field]: places } : null);
  const problems = [...problemsOf(failure), ...found].filter(
    (p, n, all) => all.findIndex((o) => o.path === p.path && o.allowed === p.allowed) === n,
  );
  const name = cameraTitle(camera);
  const title = capital(field);
  const stream = state?.stream;
  const ratio = stream !== undefined && stream.width > 0 && stream.height > 0 ? stream.width / stream.height : 16 / 9;

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      const answer = await ask<CameraRecord>(`/cameras/${encodeURIComponent(camera.id)}`, "PATCH", { [field]: places }, CAMERA_MS);
      setPlaces(read(answer));
      toast(`${title} of ${name} saved`);
      onSaved();
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <section class="card" aria-labelledby={`${field}-title`}>
      <div class="card-head">
        <h2 id={`${field}-title`}>
          {title} of {name}
        </h2>
        <span class="row-actions">
          <button type="button" onClick={() => setTaken(taken + 1)}>
            New picture
          </button>
          {links}
        </span>
      </div>
      <p class="quiet lead">
        {lead} {!changeable && whyNot(role)}
      </p>
      <form onSubmit={(e) => void save(e)} noValidate autoComplete="off">
        {editor({ picture, ratio, classes: camera.settings.classes, problems, disabled: !changeable, onChange: setPlaces }, places)}
        <OtherProblems field={field} problems={problems} failure={failure} />
        <Unsaved when={dirty && changeable} />
        {changeable && <SaveBar dirty={dirty} busy={busy} what={`Save the ${field}`} onUndo={() => setPlaces(kept)} />}
      </form>
    </section>
  );
}

/** The objections that the editor does not show at a place. */
function OtherProblems({ field, problems, failure }: { field: string; problems: Problem[]; failure: unknown }) {
  return (
    <>
      {problems
        .filter((p) => !p.path.startsWith(`${field}[`))
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
    </>
  );
}
