/** A camera's model versions: what each was worth, pin, and roll back after a confirmation. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { Camera, Model } from "./api";
import { ask, words } from "./api";
import { clock, config, percent, shortVersion } from "./format";

const STATES: Record<string, string> = {
  candidate: "being judged",
  promoted: "in force",
  rejected: "not better, not used",
  retired: "replaced by a better one",
  rolled_back: "rolled back",
};

export function Models({ camera, onClose }: { camera: Camera; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [models, setModels] = useState<Model[] | null>(null);
  const [failure, setFailure] = useState("");
  const [target, setTarget] = useState<Model | null>(null);
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);

  const load = async (): Promise<void> => {
    try {
      setModels(await ask<Model[]>(`/cameras/${encodeURIComponent(camera.id)}/models`));
    } catch (error) {
      setFailure(words(error));
    }
  };

  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  useEffect(() => void load(), [camera.id, camera.model_version]);

  const act = async (path: string, body?: unknown): Promise<void> => {
    setBusy(true);
    setFailure("");
    try {
      await ask(path, "POST", body);
      setTarget(null);
      setReason("");
      await load();
    } catch (error) {
      setFailure(words(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <dialog ref={dialog} class="models" onClose={onClose} aria-labelledby="models-title">
      <header>
        <h2 id="models-title">Models of {camera.name}</h2>
        <button class="close" onClick={() => dialog.current?.close()} aria-label="Close">
          ×
        </button>
      </header>
      {failure && (
        <p class="problem" role="alert">
          {failure}
        </p>
      )}
      {models === null && !failure && <p class="quiet">Loading…</p>}
      {models?.length === 0 && <p class="quiet">No version is recorded.</p>}
      <ul class="versions">
        {models?.map((model) => {
          const inForce = model.id === camera.model_version;
          return (
            <li key={model.id} class={inForce ? "in-force" : ""}>
              <p class="title">
                <strong>{shortVersion(model.id, camera.id)}</strong>
                <span class={`badge ${inForce ? "good" : "off"}`}>{inForce ? "in force" : (STATES[model.state] ?? model.state)}</span>
                {model.pinned && <span class="badge wait">pinned</span>}
              </p>
              <p class="quiet">
                {clock(model.created_utc_s)}
                {model.config !== null && ` · ${config(model.config)}`}
                {model.scores["held_out"] !== undefined &&
                  ` · ${percent(model.scores["held_out"])} on held-out frames, its parent ${percent(model.scores["parent_held_out"])}`}
              </p>
              {model.reason && (
                <p class="quiet">
                  {model.decided_by}: {model.reason}
                </p>
              )}
              <p class="actions">
                {inForce ? (
                  <button disabled={busy} onClick={() => void act(`/models/${model.id}/${model.pinned ? "unpin" : "pin"}`)}>
                    {model.pinned ? "Unpin" : "Pin"}
                  </button>
                ) : model.blob_kept ? (
                  target?.id !== model.id &&
                  ["retired", "promoted", "rolled_back"].includes(model.state) && (
                    <button disabled={busy} onClick={() => setTarget(model)}>
                      Roll back to this
                    </button>
                  )
                ) : (
                  <span class="quiet">its file was deleted by retention</span>
                )}
              </p>
              {target?.id === model.id && (
                <form
                  class="confirm"
                  onSubmit={(e) => {
                    e.preventDefault();
                    const by = { version: model.id, reason };
                    void act(`/cameras/${encodeURIComponent(camera.id)}/rollback`, by);
                  }}
                >
                  <p>
                    Put <strong>{shortVersion(model.id, camera.id)}</strong> in force at once? The model that answers now is kept
                    and can be taken back.
                  </p>
                  <label for="rollback-reason">Reason (kept with the decision)</label>
                  <input id="rollback-reason" type="text" maxLength={500} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
                  <div class="actions">
                    <button class="danger" type="submit" disabled={busy}>
                      {busy ? "Rolling back…" : "Roll back"}
                    </button>
                    <button type="button" onClick={() => setTarget(null)}>
                      Cancel
                    </button>
                  </div>
                </form>
              )}
            </li>
          );
        })}
      </ul>
    </dialog>
  );
}
