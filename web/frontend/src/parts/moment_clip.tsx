/** The clip of a moment: played if there is one, made if the camera's memory still holds it, or why there is none. */

import { useState } from "preact/hooks";

import type { ClipAnswer, ClipAroundAnswer } from "../answers";
import type { Me } from "../api";
import { ask, words } from "../api";
import { duration, moment } from "../format";
import { may, whyNot } from "../session";
import { CLIP_FAULTS } from "../words";
import { useAsked } from "./asking";
import { ClipVideo, clipTitle } from "./clips";
import { Dialog } from "./dialog";
import { ErrorBox, Loading } from "./states";

const SOON_S = 2;

const NO_CLIP: Record<NonNullable<ClipAroundAnswer["reason"]>, string> = {
  in_future: "This moment is yet to come.",
  too_old: "No clip of this moment was kept, and the camera's memory does not reach back so far.",
  not_kept: "No clip of this moment was kept, and no video of this camera is kept in memory (clips.enabled).",
  camera_off: "No clip of this moment was kept, and the camera is switched off.",
  camera_removed: "No clip of this moment was kept, and the camera was removed.",
  camera_away: "No clip of this moment was kept, and the camera's worker is not there now.",
  no_video: "No clip of this moment was kept, and no video of this camera is in memory: it gives none that can be kept, or was just started.",
};

interface Props {
  camera: string;
  name: string;
  at_utc_s: number;
  me: Me;
  /** The clip that shows it, where one is known. */
  clip?: number;
  /** Shown until there is a clip. */
  picture?: { url: string; alt: string };
  onClose: () => void;
}

export function MomentClip({ camera, name, at_utc_s, me, clip: known, picture, onClose }: Props) {
  const [asked, setAsked] = useState<number | null>(null);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const found = useAsked<ClipAroundAnswer>(known === undefined ? `/cameras/${encodeURIComponent(camera)}/clip-around?at=${at_utc_s}` : null);
  const number = known ?? asked ?? found.value?.clip ?? null;
  const [done, setDone] = useState(false);
  const clip = useAsked<ClipAnswer>(number === null ? null : `/clips/${number}`, null, done ? null : SOON_S);
  const state = clip.value?.state ?? null;
  if (state !== null && state !== "making" && !done) setDone(true);

  const make = async (): Promise<void> => {
    setBusy(true);
    setFailure("");
    try {
      const made = await ask<ClipAnswer>("/clips", "POST", { camera, at_utc_s });
      setAsked(made.id);
    } catch (error) {
      setFailure(words(error));
    } finally {
      setBusy(false);
    }
  };

  const kept = clip.value?.state === "kept" ? clip.value : null;
  // One dialog all along: between two, Escape would close neither.
  return (
    <Dialog title={kept === null ? `${name}, ${moment(at_utc_s)}` : clipTitle(name, kept)} onClose={onClose} wide>
      {kept !== null && <ClipVideo clip={kept} />}
      {kept === null && picture && <img class="moment-picture" src={picture.url} alt={picture.alt} />}
      {kept !== null ? null : found.error !== null || clip.error !== null ? (
        <ErrorBox what="The clip could not be loaded" error={found.error ?? clip.error} onRetry={found.error !== null ? found.again : clip.again} />
      ) : state === "failed" ? (
        <p role="status">There is no clip: {CLIP_FAULTS[clip.value?.failure?.fault ?? ""] ?? clip.value?.failure?.fault}.</p>
      ) : number !== null ? (
        <Loading what={state === "making" || asked !== null ? "The clip is being made" : "Loading the clip"} />
      ) : found.value === null ? (
        <Loading what="Looking for a clip" />
      ) : found.value.state === "can_be_made" ? (
        <KeepClip held_s={found.value.held_s ?? 0} me={me} busy={busy} onKeep={() => void make()} />
      ) : (
        <p role="status">
          {NO_CLIP[found.value.reason ?? "too_old"]}
          {found.value.reason === "too_old" && found.value.held_s !== null && ` It holds the last ${duration(found.value.held_s)}.`}
        </p>
      )}
      {failure && (
        <p class="problem" role="alert">
          {failure}
        </p>
      )}
    </Dialog>
  );
}

/** Of a moment that is still in the camera's memory, the last `held_s` seconds. */
function KeepClip({ held_s, me, busy, onKeep }: { held_s: number; me: Me; busy: boolean; onKeep: () => void }) {
  return (
    <>
      <p>
        No clip of this moment was kept yet; the camera's last {duration(held_s)} of video are in memory and hold it.
        {!may(me, "operator") && ` Keeping a clip: ${whyNot("operator")}`}
      </p>
      {may(me, "operator") && (
        <div class="actions">
          <button type="button" class="primary" disabled={busy} onClick={onKeep}>
            Keep a clip
          </button>
        </div>
      )}
    </>
  );
}
