/** Clips: a list of them, and one played with its boxes. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { ClipAnswer, ClipBoxes, ClipMoment } from "../answers";
import type { Camera, Me } from "../api";
import { ask, pictureUrl, words } from "../api";
import { ago, bytes, duration, moment } from "../format";
import { may, whyNot } from "../session";
import "../styles/clips.css";
import { CLIP_FAULTS } from "../words";
import { useAsked } from "./asking";
import { Badge } from "./badge";
import { Confirm, Dialog } from "./dialog";
import { DrawnBox } from "./drawn_box";
import { Older } from "./older";
import { usePaged } from "./paged";
import { Empty, ErrorBox, Loading } from "./states";
import { toast } from "./toasts";

const PAGE = 20;
/** While one is in the making. */
const SOON_S = 2;
const EVERY_S = 10;
/** Boxes of an answer stay so long, where none follows. */
const STAY_S = 1.5;
const CODECS: Record<string, [name: string, type: string]> = {
  h264: ["H.264", 'video/mp4; codecs="avc1.640028"'],
  hevc: ["H.265", 'video/mp4; codecs="hvc1.1.6.L120.90"'],
};
const ENDS: Record<string, string> = {
  camera_gone: "the camera was lost then",
  coding_changed: "the camera's coding changed then",
  cut_short: "the camera's worker was ended then",
};

/** Whether this browser plays a clip's codec, as far as it says. */
function plays(clip: ClipAnswer): boolean {
  const [, type] = CODECS[clip.video?.codec ?? ""] ?? ["", ""];
  return type === "" || document.createElement("video").canPlayType(type) !== "";
}

/** A link to a clip's file: its address, and its name on disk. */
function download(clip: ClipAnswer): { href: string; download: string } {
  return { href: pictureUrl(`/clips/${clip.id}/download`), download: `${clip.camera}-${clip.id}.mp4` };
}

/** The differences from the request. */
function shortcomings(clip: ClipAnswer): string[] {
  const { video } = clip;
  if (video === null) return [];
  const said = [];
  if (video.missing_before_s > 0) said.push(`begins ${duration(video.missing_before_s)} late: earlier video was not in memory`);
  if (video.missing_after_s > 0) said.push(`ends ${duration(video.missing_after_s)} early: ${ENDS[video.end] ?? "no more came"}`);
  if (video.masked) said.push("coded anew, with the masks blacked out");
  return said;
}

interface ListProps {
  me: Me;
  cameras: Camera[];
  now_s: number;
  /** Only of this one, which can be asked for a clip here. */
  camera?: Camera;
  /** A change asks again. */
  when?: unknown;
}

export function ClipList({ me, cameras, now_s, camera, when }: ListProps) {
  const [making, setMaking] = useState(false);
  const [shown, setShown] = useState<ClipAnswer | null>(null);
  const [deleting, setDeleting] = useState<ClipAnswer | null>(null);
  const found = usePaged<ClipAnswer>(`/clips${camera ? `?camera=${encodeURIComponent(camera.id)}` : ""}`, PAGE, when, making ? SOON_S : EVERY_S);
  const some = found.rows?.some((c) => c.state === "making") ?? false;
  useEffect(() => setMaking(some), [some]);
  const named = (id: string): string => cameras.find((c) => c.id === id)?.name ?? id;
  const operator = may(me, "operator");

  const remove = async (clip: ClipAnswer): Promise<void> => {
    await ask(`/clips/${clip.id}`, "DELETE");
    setDeleting(null);
    toast("Clip deleted");
    found.again();
  };

  return (
    <section class="card" aria-labelledby="clips-title">
      <div class="card-head">
        <h2 id="clips-title">Clips</h2>
      </div>
      {camera && (operator ? <MakeClip camera={camera} onMade={found.again} /> : <p class="quiet">Keeping a clip: {whyNot("operator")}</p>)}
      {found.error !== null && <ErrorBox what="The clips could not be loaded" error={found.error} onRetry={found.again} />}
      {found.rows === null && found.error === null && <Loading what="Loading the clips" />}
      {found.rows?.length === 0 && (
        <Empty title="No clip yet">
          A rule with <em>Keep a clip</em> makes one of each of its alarms; one can be asked for on a camera's page, too.
        </Empty>
      )}
      {found.rows !== null && found.rows.length > 0 && (
        <ul class="clips">
          {found.rows.map((clip) => (
            <ClipRow key={clip.id} clip={clip} camera={camera ? null : named(clip.camera)} now_s={now_s} onPlay={setShown} onDelete={operator ? setDeleting : null} />
          ))}
        </ul>
      )}
      <Older of={found} words="Older clips" />
      {shown && <ClipPlayer clip={shown} name={named(shown.camera)} onClose={() => setShown(null)} />}
      {deleting && (
        <Confirm title="Delete this clip?" action="Delete" danger onClose={() => setDeleting(null)} onConfirm={() => remove(deleting)}>
          <p>
            The clip of {named(deleting.camera)} at {moment(deleting.at_utc_s)} and its boxes are deleted. This cannot be undone.
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** The end of a button's words, for those who do not see beside which clip it stands. */
function ClipName({ clip }: { clip: ClipAnswer }) {
  return <span class="hidden"> the clip of {moment(clip.at_utc_s)}</span>;
}

interface RowProps {
  clip: ClipAnswer;
  /** The camera's name; null: the clips are all of one camera. */
  camera: string | null;
  now_s: number;
  onPlay: (clip: ClipAnswer) => void;
  /** Null: the user may not. */
  onDelete: ((clip: ClipAnswer) => void) | null;
}

function ClipRow({ clip, camera, now_s, onPlay, onDelete }: RowProps) {
  const { video, failure } = clip;
  return (
    <li>
      <div>
        <p>
          <b>
            {camera !== null && `${camera}, `}
            {moment(clip.at_utc_s)}
          </b>{" "}
          <span class="quiet">({ago(Math.max(0, now_s - clip.at_utc_s))})</span>
          {clip.state === "making" && <Badge tone="wait">in the making</Badge>}
          {clip.state === "failed" && <Badge tone="bad">failed</Badge>}
        </p>
        <p class="quiet small">
          {video !== null && `${duration(video.seconds)}, ${CODECS[video.codec]?.[0] ?? ""}, ${video.width} × ${video.height}, ${bytes(video.bytes)}; `}
          {failure !== null && `${CLIP_FAULTS[failure.fault] ?? failure.fault}; `}
          {clip.asked_by ? `asked for by ${clip.asked_by}` : `of ${clip.alarms.length === 1 ? "alarm" : "alarms"} ${clip.alarms.join(", ")}`}
        </p>
        {shortcomings(clip).map((line) => (
          <p key={line} class="small">
            {line}
          </p>
        ))}
      </div>
      <div class="row-actions">
        {clip.state === "kept" && (
          <>
            <button type="button" onClick={() => onPlay(clip)}>
              Play<ClipName clip={clip} />
            </button>
            <a class="button" {...download(clip)}>
              Download<ClipName clip={clip} />
            </a>
          </>
        )}
        {onDelete !== null && clip.state !== "making" && (
          <button type="button" onClick={() => onDelete(clip)}>
            Delete<ClipName clip={clip} />
          </button>
        )}
      </div>
    </li>
  );
}

/** Asks for a clip around now; empty fields are the camera's own seconds. */
function MakeClip({ camera, onMade }: { camera: Camera; onMade: () => void }) {
  const [before, setBefore] = useState("");
  const [after, setAfter] = useState("");
  const [busy, setBusy] = useState(false);
  const make = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      const seconds = { ...(before && { before_s: Number(before) }), ...(after && { after_s: Number(after) }) };
      await ask("/clips", "POST", { camera: camera.id, ...seconds });
      toast("The clip is being made");
      onMade();
    } catch (error) {
      toast(`No clip: ${words(error)}`, "bad");
    } finally {
      setBusy(false);
    }
  };
  const ring = camera.state.ring;
  return (
    <form class="clip-form" onSubmit={(e) => void make(e)}>
      <label>
        Before now{" "}
        <input type="number" min="0" step="any" value={before} placeholder="usual" onInput={(e) => setBefore(e.currentTarget.value)} /> s
      </label>
      <label>
        After{" "}
        <input type="number" min="0" step="any" value={after} placeholder="usual" onInput={(e) => setAfter(e.currentTarget.value)} /> s
      </label>
      <button type="submit" class="primary" disabled={busy || ring === null}>
        Keep a clip
      </button>
      <p class="quiet small">
        {ring === null
          ? "No video of this camera is kept in memory (clips.enabled)."
          : `${ring.seconds.toFixed(0)} s of its video are in memory (${bytes(ring.bytes)}${ring.codec ? `, ${CODECS[ring.codec]?.[0] ?? ring.codec}` : ""}).`}
      </p>
    </form>
  );
}

/** The answer that holds at a time of the clip. */
export function answerAt(answers: readonly ClipMoment[], at_s: number): ClipMoment | null {
  let low = 0;
  let high = answers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((answers[middle]?.at_s ?? 0) <= at_s + 0.02) low = middle + 1;
    else high = middle;
  }
  const found = answers[low - 1];
  return found !== undefined && at_s - found.at_s <= STAY_S ? found : null;
}

/** The answer that belongs to the picture that the video shows now. */
function useAnswerNow(video: RefObject<HTMLVideoElement | null>, boxes: ClipBoxes | null): ClipMoment | null {
  const [now, setNow] = useState<ClipMoment | null>(null);
  useEffect(() => {
    const player = video.current;
    const answers = boxes?.answers ?? [];
    if (player === null || answers.length === 0) return undefined;
    let wanted = true;
    let callback = 0;
    const look = (_: number, frame: VideoFrameCallbackMetadata): void => {
      setNow(answerAt(answers, frame.mediaTime));
      if (wanted) callback = player.requestVideoFrameCallback(look);
    };
    callback = player.requestVideoFrameCallback(look);
    setNow(answerAt(answers, player.currentTime));
    return () => {
      wanted = false;
      player.cancelVideoFrameCallback(callback);
    };
  }, [boxes]);
  return now;
}

/** The title of a dialog that shows a clip. */
export function clipTitle(name: string, clip: ClipAnswer): string {
  return `${name}, ${moment(clip.at_utc_s)}`;
}

export function ClipPlayer({ clip, name, onClose }: { clip: ClipAnswer; name: string; onClose: () => void }) {
  return (
    <Dialog title={clipTitle(name, clip)} onClose={onClose} wide>
      <ClipVideo clip={clip} />
    </Dialog>
  );
}

/** A clip that plays, with its boxes, for a dialog. */
export function ClipVideo({ clip }: { clip: ClipAnswer }) {
  const video = useRef<HTMLVideoElement>(null);
  const boxes = useAsked<ClipBoxes>(`/clips/${clip.id}/boxes`);
  const now = useAnswerNow(video, boxes.value);
  const [shown, setShown] = useState(true);
  const [broken, setBroken] = useState(!plays(clip));
  const [codec] = CODECS[clip.video?.codec ?? ""] ?? [""];
  return (
    <>
      {broken && (
        <p role="alert">
          This browser does not play {codec || "this video"}. <a {...download(clip)}>Download it</a> and play it with another program.
        </p>
      )}
      <div class="clip-video" style={{ aspectRatio: `${clip.video?.width ?? 16} / ${clip.video?.height ?? 9}` }}>
        <video
          ref={video}
          src={pictureUrl(`/clips/${clip.id}/video.mp4`)}
          controls
          autoplay
          muted
          playsInline
          aria-label={`Clip of ${name}`}
          onError={() => setBroken(true)}
          onCanPlay={() => setBroken(false)}
        />
        {shown && now && <NamedBoxes boxes={now.boxes} />}
      </div>
      <div class="switches">
        <label class="check">
          <input type="checkbox" checked={shown} onChange={(e) => setShown(e.currentTarget.checked)} />
          Show boxes
        </label>
        <span class="quiet small">{boxes.error !== null ? "The boxes could not be loaded." : `${boxes.value?.answers.length ?? 0} answers of the model`}</span>
      </div>
      {shortcomings(clip).map((line) => (
        <p key={line}>{line}</p>
      ))}
      <p class="quiet small hash">SHA-256 {clip.video?.sha256}</p>
    </>
  );
}

function NamedBoxes({ boxes }: { boxes: ClipMoment["boxes"] }) {
  return (
    <>
      <svg class="clip-boxes" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
        {boxes.map((o, n) => (
          <DrawnBox key={n} box={o.box} />
        ))}
      </svg>
      {boxes.map((o, n) => (
        <span key={n} class="clip-name" aria-hidden="true" style={{ left: `${100 * Math.min(o.box[0], 0.8)}%`, top: `${100 * Math.max(0, o.box[1] - 0.05)}%` }}>
          {o.class}
        </span>
      ))}
    </>
  );
}
