/** A camera's models: what each was worth, where it came from, pin, and roll back. */

import { useState } from "preact/hooks";

import type { Camera, Me, Model } from "../api";
import { ask } from "../api";
import { config, moment, percent, shortVersion, wholeVersion } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import type { Tone } from "../parts/badge";
import { Confirm } from "../parts/dialog";
import { Icon } from "../parts/icon";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { toast } from "../parts/toasts";
import { href } from "../router";
import { may, whyNot } from "../session";

const STATES: Record<string, [string, Tone]> = {
  candidate: ["Being judged", "wait"],
  promoted: ["Replaced", "off"],
  rejected: ["Not better, not used", "off"],
  retired: ["Replaced by a better one", "off"],
  rolled_back: ["Rolled back", "bad"],
};
const ONCE_IN_FORCE = ["retired", "promoted", "rolled_back"];

/** The version and its ancestors, as far as they are known; oldest first. */
function ancestors(models: Model[], version: string): Model[] {
  const byId = new Map(models.map((m) => [m.id, m]));
  const out: Model[] = [];
  for (let at = byId.get(version); at !== undefined && !out.includes(at); at = byId.get(at.parent ?? "")) out.unshift(at);
  return out;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

type Act = { kind: "pin" | "unpin" | "roll back"; model: Model };
/** Null: the user may do none. */
type OnAct = ((act: Act) => void) | null;

export function ModelsTab({ camera, me }: { camera: Camera; me: Me }) {
  const asked = useAsked<Model[]>(`/cameras/${encodeURIComponent(camera.id)}/models`, camera.state.model.version, 15);
  const [act, setAct] = useState<Act | null>(null);
  const operator = may(me, "operator");
  if (asked.value === null) {
    return asked.error !== null ? (
      <ErrorBox what="The models could not be loaded" error={asked.error} onRetry={asked.again} />
    ) : (
      <Loading />
    );
  }
  const models = asked.value;
  if (models.length === 0) return <Empty title="No model is recorded">The first one is made when the camera starts.</Empty>;
  const inForce = models.find((m) => m.id === camera.state.model.version);
  const onAct = operator ? setAct : null;
  return (
    <section aria-labelledby="models-title">
      <div class="card-head">
        <h2 id="models-title">Models</h2>
        {!operator && <p class="quiet small">Pin and roll back: {whyNot("operator").toLowerCase()}</p>}
      </div>
      <Lineage models={models} version={camera.state.model.version} onAct={onAct} />
      <ul class="versions">
        {models.map((model) => (
          <Version key={model.id} model={model} parent={models.find((m) => m.id === model.parent)} inForce={inForce} onAct={onAct} />
        ))}
      </ul>
      {act !== null && (
        <Act
          act={act}
          camera={camera}
          onDone={() => asked.again()}
          onClose={() => setAct(null)}
        />
      )}
    </section>
  );
}

interface LineageProps {
  models: Model[];
  /** The version in force. */
  version: string;
  onAct: OnAct;
}

/** The model in force, and those that it was made from. */
function Lineage({ models, version, onAct }: LineageProps) {
  const line = ancestors(models, version);
  if (line.length === 0) return null;
  const inForce = models.find((m) => m.id === version);
  const parent = models.find((m) => m.id === inForce?.parent);
  return (
    <div class="card lineage">
      <h3>How the model in force came about</h3>
      <ol>
        {line.map((m, n) => (
          <li key={m.id}>
            <a href={`#model-${m.id}`} onClick={(e) => { e.preventDefault(); document.getElementById(`model-${m.id}`)?.scrollIntoView({ block: "center" }); }}>
              {capital(shortVersion(m))}
            </a>
            {m.scores["held_out"] !== undefined && <span class="quiet">{percent(m.scores["held_out"])}</span>}
            {n === line.length - 1 && <Badge tone="good">In force</Badge>}
          </li>
        ))}
      </ol>
      <p class="hint">Each was retrained from the one before. The number is how right it was on pictures it had not learned from.</p>
      {onAct && inForce && parent && parent.blob_kept && !inForce.pinned && (
        <div class="actions">
          <button type="button" onClick={() => onAct({ kind: "roll back", model: parent })}>
            Roll back to {wholeVersion(parent)}
          </button>
        </div>
      )}
    </div>
  );
}

interface VersionProps {
  model: Model;
  /** Its parent, where that is known. */
  parent: Model | undefined;
  inForce: Model | undefined;
  onAct: OnAct;
}

function Version({ model, parent, inForce, onAct }: VersionProps) {
  const current = model.id === inForce?.id;
  const [label, tone] = STATES[model.state] ?? [model.state, "off" as Tone];
  return (
    <li id={`model-${model.id}`} class={current ? "card in-force" : "card"}>
      <div class="title">
        <h3>{capital(model.origin === "retrained" || model.origin === "sibling" ? `model ${shortVersion(model)}` : shortVersion(model))}</h3>
        {current ? <Badge tone="good">In force</Badge> : <Badge tone={tone}>{label}</Badge>}
        {model.pinned && (
          <span class="badge wait">
            <Icon name="pin" size={13} />
            Pinned
          </span>
        )}
        <span class="quiet">{moment(model.created_utc_s)}</span>
      </div>
      <Scores model={model} />
      <p class="quiet small">
        {parent && `Made from ${wholeVersion(parent)}`}
        {model.window !== null && (
          <>
            {parent ? ", with the pictures of " : "With the pictures of "}
            <a href={href("windows", model.window)}>window {model.window}</a>
          </>
        )}
        {model.origin === "retrained" && model.config !== null && `: ${config(model.config, model.retraining)}`}
      </p>
      {model.reason && (
        <p class="quiet small">
          {model.decided_by}: {model.reason}
        </p>
      )}
      {onAct && <VersionActs model={model} inForce={inForce} onAct={onAct} />}
    </li>
  );
}

/** How right it was on pictures that it had not learned from, and its parent on the same. */
function Scores({ model }: { model: Model }) {
  return (
    <p>
      {model.scores["held_out"] === undefined ? (
        <span class="quiet">{model.parent === null || model.parent === "" ? "The first model." : "Not judged."}</span>
      ) : (
        <>
          <strong>{percent(model.scores["held_out"])}</strong> on held-out pictures
          {model.scores["parent_held_out"] !== undefined && (
            <span class="quiet">; its parent {percent(model.scores["parent_held_out"])} on the same</span>
          )}
        </>
      )}
    </p>
  );
}

interface VersionActsProps {
  model: Model;
  inForce: Model | undefined;
  onAct: (act: Act) => void;
}

function VersionActs({ model, inForce, onAct }: VersionActsProps) {
  const current = model.id === inForce?.id;
  const backTo = !current && model.blob_kept && ONCE_IN_FORCE.includes(model.state);
  return (
    <div class="actions">
      {current && (
        <button type="button" onClick={() => onAct({ kind: model.pinned ? "unpin" : "pin", model })}>
          <Icon name="pin" />
          {model.pinned ? "Unpin" : "Pin"}
        </button>
      )}
      {backTo && (
        <button type="button" disabled={inForce?.pinned === true} onClick={() => onAct({ kind: "roll back", model })}>
          Roll back to this
        </button>
      )}
      {backTo && inForce?.pinned && <span class="quiet small">Unpin the model in force first.</span>}
      {!model.blob_kept && <span class="quiet small">Its file was deleted by retention.</span>}
    </div>
  );
}

interface ActProps {
  act: Act;
  camera: Camera;
  onDone: () => void;
  onClose: () => void;
}

function Act({ act, camera, onDone, onClose }: ActProps) {
  const name = wholeVersion(act.model);
  const done = (text: string): void => {
    toast(text);
    onDone();
  };
  if (act.kind === "roll back") {
    return (
      <Confirm
        title={`Roll back ${camera.name}`}
        action="Roll back"
        danger
        reason="Reason (kept with the decision)"
        onClose={onClose}
        onConfirm={async (reason) => {
          await ask(`/cameras/${encodeURIComponent(camera.id)}/rollback`, "POST", { version: act.model.id, reason });
          done(`${camera.name} answers with ${name} again`);
        }}
      >
        <p>
          Put <strong>{name}</strong> in force at once, between two pictures? No picture is lost. The model that answers now is
          kept and can be taken back the same way.
        </p>
        <p>Retraining goes on from the one you choose, unless you pin it.</p>
      </Confirm>
    );
  }
  const pin = act.kind === "pin";
  return (
    <Confirm
      title={pin ? `Pin the model of ${camera.name}` : `Unpin the model of ${camera.name}`}
      action={pin ? "Pin" : "Unpin"}
      onClose={onClose}
      onConfirm={async () => {
        await ask(`/models/${encodeURIComponent(act.model.id)}/${act.kind}`, "POST");
        done(pin ? `${capital(name)} stays in force` : `${capital(name)} may be replaced by better ones again`);
      }}
    >
      <p>
        {pin
          ? `${capital(name)} stays in force until it is unpinned: no retrained model takes its place, however much better, and it is not rolled back.`
          : `From now on a retrained model that is better takes the place of ${name}.`}
      </p>
    </Confirm>
  );
}
