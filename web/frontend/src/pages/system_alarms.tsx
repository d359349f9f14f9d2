/** Alarms: those that go on, those that are over, and acknowledging them. */

import { useState } from "preact/hooks";

import type { ClipAnswer } from "../answers";
import type { Alarm, Camera, Me } from "../api";
import { ask, pictureUrl, words } from "../api";
import { ago, duration, moment } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import type { Tone } from "../parts/badge";
import { CameraFilter } from "../parts/camera_filter";
import { ClipPlayer } from "../parts/clips";
import { Dialog } from "../parts/dialog";
import { Older } from "../parts/older";
import { usePaged } from "../parts/paged";
import { SEVERITIES } from "../parts/severity";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { toast } from "../parts/toasts";
import { href } from "../router";
import { may, whyNot } from "../session";

const PAGE = 50;
const EVERY_S = 5;
/** So many of the newest clips are looked at for those of alarms. */
const CLIPS = 200;

interface Props {
  me: Me;
  cameras: Camera[];
  /** Those that go on, as the rest of the page knows them: a change asks again. */
  active: Alarm[] | null;
  now_s: number;
}

export function Alarms({ me, cameras, active, now_s }: Props) {
  const [which, setWhich] = useState<"all" | "active">("all");
  const [camera, setCamera] = useState("");
  const [picture, setPicture] = useState<Alarm | null>(null);
  const filters = [which === "active" ? "active=true" : "", camera ? `camera=${encodeURIComponent(camera)}` : ""].filter(Boolean);
  const found = usePaged<Alarm>(`/alarms${filters.length ? `?${filters.join("&")}` : ""}`, PAGE, active?.length, EVERY_S);
  const clips = useAsked<ClipAnswer[]>(`/clips?limit=${CLIPS}`, active?.length, EVERY_S);
  const [clip, setClip] = useState<ClipAnswer | null>(null);
  const acknowledging = useAcknowledging(found.again);
  const named = (id: string): string => cameras.find((c) => c.id === id)?.name ?? id;
  const operator = may(me, "operator");
  return (
    <section class="card" aria-labelledby="alarms-title">
      <div class="card-head">
        <h2 id="alarms-title">Alarms</h2>
        <div class="filters">
          <label>
            Show{" "}
            <select value={which} onChange={(e) => setWhich(e.currentTarget.value as "all" | "active")}>
              <option value="all">all</option>
              <option value="active">those that go on</option>
            </select>
          </label>
          <CameraFilter cameras={cameras} chosen={camera} onChoose={setCamera} />
          <a href={href("settings", "rules")}>Rules</a>
        </div>
      </div>
      {!operator && <p class="quiet">Acknowledging: {whyNot("operator")}</p>}
      {found.error !== null && <ErrorBox what="The alarms could not be loaded" error={found.error} onRetry={found.again} />}
      {found.rows === null && found.error === null && <Loading what="Loading the alarms" />}
      {found.rows?.length === 0 && (
        <Empty title={which === "active" ? "No alarm goes on" : "No alarm yet"} action={<a href={href("settings", "rules")}>To the rules</a>}>
          Rules say when there is one: an object in a zone, a camera that is lost, accuracy that is too low, a full disk.
        </Empty>
      )}
      {found.rows !== null && found.rows.length > 0 && (
        <ul class="alarms">
          {found.rows.map((alarm) => (
            <li key={alarm.id} class={alarm.ended_utc_s === null ? "on" : ""}>
              <AlarmWords alarm={alarm} named={named} now_s={now_s} />
              <AlarmActions
                alarm={alarm}
                clip={clips.value?.find((c) => c.state === "kept" && c.alarms.includes(alarm.id))}
                acknowledging={operator ? acknowledging : null}
                onPicture={setPicture}
                onClip={setClip}
              />
            </li>
          ))}
        </ul>
      )}
      <Older of={found} words="Older alarms" />
      {clip && <ClipPlayer clip={clip} name={named(clip.camera)} onClose={() => setClip(null)} />}
      {picture && <AlarmPicture alarm={picture} onClose={() => setPicture(null)} />}
    </section>
  );
}

interface Acknowledging {
  /** The alarm that is being acknowledged. */
  busy: Alarm["id"] | null;
  acknowledge: (alarm: Alarm) => Promise<void>;
}

function useAcknowledging(onDone: () => void): Acknowledging {
  const [busy, setBusy] = useState<Alarm["id"] | null>(null);
  const acknowledge = async (alarm: Alarm): Promise<void> => {
    setBusy(alarm.id);
    try {
      await ask(`/alarms/${alarm.id}/acknowledge`, "POST", {});
      toast("Alarm acknowledged");
      onDone();
    } catch (error) {
      toast(`Not acknowledged: ${words(error)}`, "bad");
    } finally {
      setBusy(null);
    }
  };
  return { busy, acknowledge };
}

function AlarmWords({ alarm, named, now_s }: { alarm: Alarm; named: (camera: string) => string; now_s: number }) {
  const [severity, tone] = SEVERITIES[alarm.severity] ?? [alarm.severity, "info" as Tone];
  const goes_on = alarm.ended_utc_s === null;
  const end = alarm.ended_utc_s ?? now_s;
  return (
    <>
      <span class="alarm-state">
        <Badge tone={goes_on ? tone : "off"}>{severity}</Badge>
      </span>
      <div class="alarm-text">
        <p>
          {alarm.camera !== null && <b>{named(alarm.camera)}: </b>}
          {alarm.message}
        </p>
        <p class="quiet">
          <time dateTime={new Date(1000 * alarm.began_utc_s).toISOString()}>{moment(alarm.began_utc_s)}</time> ({ago(Math.max(0, now_s - alarm.began_utc_s))}),{" "}
          {goes_on ? "goes on" : `over after ${duration(Math.max(0, end - alarm.began_utc_s))}`}; rule {alarm.rule}
          {alarm.acknowledged_by !== null && `; acknowledged by ${alarm.acknowledged_by}`}
        </p>
      </div>
    </>
  );
}

interface ActionsProps {
  alarm: Alarm;
  /** Its video, where some was kept. */
  clip: ClipAnswer | undefined;
  /** Null: the user may not acknowledge. */
  acknowledging: Acknowledging | null;
  onPicture: (alarm: Alarm) => void;
  onClip: (clip: ClipAnswer) => void;
}

function AlarmActions({ alarm, clip, acknowledging, onPicture, onClip }: ActionsProps) {
  return (
    <span class="alarm-actions">
      {alarm.picture && (
        <button type="button" class="thumb" aria-label={`Picture of the alarm of ${moment(alarm.began_utc_s)}`} onClick={() => onPicture(alarm)}>
          <img src={pictureUrl(`/alarms/${alarm.id}/picture.jpg`)} alt="" loading="lazy" width={96} height={54} />
        </button>
      )}
      {clip && (
        <button type="button" onClick={() => onClip(clip)}>
          Clip<span class="hidden"> of the alarm of {moment(alarm.began_utc_s)}</span>
        </button>
      )}
      {acknowledging && alarm.acknowledged_by === null && (
        <button type="button" disabled={acknowledging.busy === alarm.id} onClick={() => void acknowledging.acknowledge(alarm)}>
          Acknowledge
        </button>
      )}
    </span>
  );
}

function AlarmPicture({ alarm, onClose }: { alarm: Alarm; onClose: () => void }) {
  return (
    <Dialog title={`Alarm of ${moment(alarm.began_utc_s)}`} onClose={onClose} wide>
      <p>{alarm.message}</p>
      <img class="alarm-picture" src={pictureUrl(`/alarms/${alarm.id}/picture.jpg`)} alt={alarm.message} />
    </Dialog>
  );
}
