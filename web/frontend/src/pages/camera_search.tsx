/** The search of the network for cameras: what answers, the streams of each, and the one that is proposed. */

import { useState } from "preact/hooks";

import type { FoundCamera, FoundCameras, FoundStream, NeedAnswer } from "../answers";
import { ask, problemsOf } from "../api";
import type { Problem } from "../api";
import { Badge } from "../parts/badge";
import type { Tone } from "../parts/badge";
import { TextField } from "../parts/form";
import type { Json } from "../parts/schema_form";
import { ErrorBox } from "../parts/states";
import { Table } from "../parts/table";

/** The appliance listens for 3 s and asks for 40 s at most. */
const SEARCH_MS = 60_000;

const FAULTS: Record<NonNullable<FoundCamera["fault"]>, string> = {
  unreachable: "No device answers there.",
  unknown_name: "This name leads nowhere.",
  tls: "Its TLS cannot be used, or it has none.",
  silent: "No answer came in time.",
  not_asked: "It was not asked: the time of the search was over. Search at its address.",
  refused: "It wants another user name or password: give them below and search again.",
  elsewhere: "It names another host, which was not asked:",
  redirected: "It sends elsewhere, which was not followed.",
  too_large: "An answer of it is too long.",
  unreadable: "The device that answers there is no ONVIF device.",
  no_profiles: "It offers no stream.",
};

const VERDICTS: Record<FoundStream["verdict"], [string, Tone]> = {
  proposed: ["Proposed", "good"],
  nearest: ["Nearest to what is wanted", "wait"],
  dearer: ["Good, but dearer", "info"],
  no_encoder: ["No video", "off"],
  no_size: ["Does not say how large its picture is", "off"],
  codec: ["Neither H.264 nor H.265", "off"],
  too_small: ["Picture too small", "off"],
  too_slow: ["Too few pictures a second", "off"],
  no_address: ["Gives no RTSP address", "off"],
  elsewhere: ["Its address is of another host", "bad"],
  password_in_address: ["A password is in its address", "bad"],
  refused: ["Its address wants another user name or password", "bad"],
  silent: ["Its address did not come in time", "off"],
};

const CODECS: Record<string, string> = { h264: "H.264", h265: "H.265", jpeg: "Motion JPEG" };

interface Props {
  draft: Json;
  /** Keeps the typed password under a name for the time of the search. */
  withSecret: (name: string) => Promise<Json>;
  secret: boolean;
  onPick: (url: string, name: string) => void;
}

function wantedRate(draft: Json): Json {
  const rates = (draft["inference"] as Json | undefined)?.["frame_rates"];
  const usable = Array.isArray(rates) ? rates.filter((r): r is number => typeof r === "number" && r > 0) : [];
  return usable.length > 0 ? { fps: Math.max(...usable) } : {};
}

/** The student as the form has it; the schema's own checks answer for what is wrong in it. */
function wantedInput(draft: Json): Json {
  const shape = (draft["inference"] as Json | undefined)?.["shape"];
  return {
    ...(draft["student"] === undefined ? {} : { student: draft["student"] }),
    ...(draft["task"] === undefined ? {} : { task: draft["task"] }),
    ...(shape === undefined ? {} : { shape }),
  };
}

function named(draft: Json): boolean {
  return typeof draft["username"] === "string" && draft["username"].trim() !== "";
}

/** Without a user name there is no login, and a password is for nothing. */
async function login(draft: Json, kept: () => Promise<Json>): Promise<Json> {
  return named(draft) ? { username: draft["username"], password_from: draft["password_from"] ?? "", ...(await kept()) } : {};
}

/** Of this search alone: another administrator may search at the same time. */
function trialName(): string {
  const [number] = crypto.getRandomValues(new Uint32Array(1));
  return `trial-search-${(number ?? 0).toString(36)}`;
}

export function CameraSearch({ draft, withSecret, secret, onPick }: Props) {
  const [where, setWhere] = useState("");
  const [found, setFound] = useState<FoundCameras | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const problems: Problem[] = problemsOf(error);
  const search = async (): Promise<void> => {
    setBusy(true);
    setFound(null);
    setError(null);
    const addresses = where.split(/[\s,]+/).filter((a) => a !== "");
    const secretName = trialName();
    try {
      const asked = { addresses, ...(await login(draft, () => withSecret(secretName))), ...wantedRate(draft), ...wantedInput(draft) };
      setFound(await ask<FoundCameras>("/discovery", "POST", asked, SEARCH_MS));
    } catch (failure) {
      setError(failure);
    } finally {
      if (secret && named(draft)) ask(`/secrets/${secretName}`, "DELETE").catch(() => undefined);
      setBusy(false);
    }
  };
  return (
    <section class="camera-search" aria-label="Search the network">
      <form
        class="search-asked"
        onSubmit={(e) => {
          e.preventDefault();
          void search();
        }}
        noValidate
      >
        <TextField
          label="Search at"
          path="addresses"
          problems={problems}
          value={where}
          onChange={setWhere}
          hint="Empty: the networks of this box. Or addresses of cameras, with commas. User name and password below are used for all that answer."
        />
        <button type="submit" disabled={busy}>
          {busy ? "Searching…" : "Search the network"}
        </button>
      </form>
      <div role="status">
        {busy && <p class="quiet">This takes three seconds, and longer where cameras answer late.</p>}
        {found !== null && <p>{summary(found)}</p>}
      </div>
      {error !== null && <ErrorBox what="The network was not searched" error={error} />}
      {found?.cameras.map((camera) => <OneFound key={`${camera.address} ${camera.elsewhere}`} camera={camera} onPick={onPick} />)}
    </section>
  );
}

function summary(found: FoundCameras): string {
  const count = found.cameras.length;
  const lost = found.outside + found.unreadable + found.over;
  const said = count === 0 ? "No camera answered." : count === 1 ? "One camera answered." : `${count} cameras answered.`;
  const rest = lost === 0 ? "" : ` Answers not used: ${found.outside} from another network, ${found.unreadable} unreadable, ${found.over} beyond the limits.`;
  return `${said} ${wanted(found.need)}${rest}`;
}

function wanted(need: NeedAnswer): string {
  const size = `${need.width} × ${need.height}`;
  const picture = need.fixed ? `a picture that fills ${size} pixels` : `a picture that fills an input of its own proportions, as large as ${size} pixels`;
  const whose = need.student === "" ? "the usual input of a student" : need.source === "site" ? `${need.student}, the site's student` : need.student;
  const forWhom = need.source === "camera" && need.student === "" ? "the student below" : whose;
  const unread = need.unread === "" ? "" : ` The student's own input is not known: ${need.unread}.`;
  return `Wanted for ${forWhom} is ${picture}, ${need.fps} times a second.${unread}`;
}

function OneFound({ camera, onPick }: { camera: FoundCamera; onPick: Props["onPick"] }) {
  const name = camera.name || camera.hardware || camera.address;
  return (
    <div class="found-camera">
      <h3>
        {name} <span class="quiet">{name === camera.address ? "" : camera.address}</span>
      </h3>
      {camera.fault !== null && (
        <p class="problem">
          {FAULTS[camera.fault]} {camera.elsewhere}
        </p>
      )}
      {camera.streams_lost > 0 && <p class="quiet">{camera.streams_lost} of its streams are not shown.</p>}
      {camera.streams.length > 0 && (
        <Table
          caption={`Streams of ${name}`}
          rows={camera.streams}
          rowKey={(s) => s.token}
          columns={[
            { key: "name", title: "Stream", cell: (s) => s.name || s.token },
            { key: "codec", title: "Codec", cell: (s) => CODECS[s.codec] ?? s.codec },
            { key: "size", title: "Picture", number: true, cell: (s) => (s.width > 0 ? `${s.width} × ${s.height}` : "") },
            { key: "fps", title: "Frames a second", number: true, cell: (s) => (s.fps > 0 ? s.fps : "") },
            { key: "rate", title: "kbit/s", number: true, cell: (s) => (s.bitrate_kbps > 0 ? s.bitrate_kbps : "") },
            { key: "verdict", title: "Choice", cell: (s) => <Badge tone={VERDICTS[s.verdict][1]}>{VERDICTS[s.verdict][0]}</Badge> },
            {
              key: "use",
              title: "Use",
              cell: (s) =>
                s.url !== "" && (
                  <button type="button" class={s.verdict === "proposed" ? "primary" : ""} aria-label={`Use ${s.name || s.token} of ${name}`} onClick={() => onPick(s.url, name)}>
                    Use
                  </button>
                ),
            },
          ]}
        />
      )}
    </div>
  );
}
