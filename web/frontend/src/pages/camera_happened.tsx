/** Alarms and objects of one camera, and what happened to it. */

import { useState } from "preact/hooks";

import type { ObjectAnswer } from "../answers";
import type { Alarm, Camera, Me } from "../api";
import { ApiError, ask, pictureUrl, words } from "../api";
import { ago, duration, moment, percent } from "../format";
import { Badge } from "../parts/badge";
import { Dialog } from "../parts/dialog";
import { Events } from "../parts/events";
import { Older } from "../parts/older";
import { usePaged } from "../parts/paged";
import { SEVERITIES } from "../parts/severity";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { toast } from "../parts/toasts";
import { href } from "../router";
import { may } from "../session";
import type { Known } from "../store";

const PAGE = 20;

interface Props {
  camera: Camera;
  known: Known;
  me: Me;
  now_s: number;
}

interface Shown {
  title: string;
  url: string;
}

export function HappenedTab({ camera, known, me, now_s }: Props) {
  const [picture, setPicture] = useState<Shown | null>(null);
  return (
    <div class="cards wide-cards">
      <AlarmList camera={camera} known={known} me={me} now_s={now_s} onPicture={setPicture} />
      <ObjectList camera={camera} now_s={now_s} onPicture={setPicture} />
      <Events events={known.events.filter((e) => e.camera === camera.id)} cameras={null} />
      {picture !== null && (
        <Dialog title={picture.title} onClose={() => setPicture(null)} wide>
          <img class="whole" src={picture.url} alt={picture.title} />
        </Dialog>
      )}
    </div>
  );
}

function missing(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

function AlarmList({ camera, known, me, now_s, onPicture }: Props & { onPicture: (shown: Shown) => void }) {
  const found = usePaged<Alarm>(`/alarms?camera=${encodeURIComponent(camera.id)}`, PAGE, known.alarms?.length, 10);
  const acknowledge = async (alarm: Alarm): Promise<void> => {
    try {
      await ask(`/alarms/${alarm.id}/acknowledge`, "POST", {});
      toast("Alarm acknowledged");
      found.again();
    } catch (error) {
      toast(`Not acknowledged: ${words(error)}`, "bad");
    }
  };
  return (
    <section class="card" aria-labelledby="camera-alarms">
      <h2 id="camera-alarms">Alarms</h2>
      {found.rows === null ? (
        found.error === null ? (
          <Loading />
        ) : missing(found.error) ? (
          <p class="quiet">Alarms are not kept on this appliance.</p>
        ) : (
          <ErrorBox what="The alarms could not be loaded" error={found.error} onRetry={found.again} />
        )
      ) : found.rows.length === 0 ? (
        <Empty title="No alarm of this camera" action={may(me, "operator") ? <a href={href("settings", "rules")}>Rules</a> : undefined}>
          Rules say what raises one: an object in a zone, accuracy below a limit, a lost camera.
        </Empty>
      ) : (
        <ul class="happenings">
          {found.rows.map((alarm) => (
            <AlarmRow key={alarm.id} alarm={alarm} me={me} now_s={now_s} onPicture={onPicture} onAcknowledge={() => void acknowledge(alarm)} />
          ))}
        </ul>
      )}
      <Older of={found} words="Older" />
    </section>
  );
}

interface AlarmProps {
  alarm: Alarm;
  me: Me;
  now_s: number;
  onPicture: (shown: Shown) => void;
  onAcknowledge: () => void;
}

function AlarmRow({ alarm, me, now_s, onPicture, onAcknowledge }: AlarmProps) {
  const [label, tone] = SEVERITIES[alarm.severity];
  const message = alarm.message || alarm.rule;
  return (
    <li>
      <p>
        <Badge tone={tone}>{label}</Badge> <strong>{message}</strong>
      </p>
      <p class="quiet small">
        {moment(alarm.began_utc_s)},{" "}
        {alarm.ended_utc_s === null ? `goes on, began ${ago(now_s - alarm.began_utc_s)}` : `for ${duration(alarm.ended_utc_s - alarm.began_utc_s)}`}
        {alarm.acknowledged_by !== null && `, acknowledged by ${alarm.acknowledged_by}`}
      </p>
      <div class="row-actions">
        {alarm.picture && (
          <button
            type="button"
            onClick={() => onPicture({ title: `${message}, ${moment(alarm.began_utc_s)}`, url: pictureUrl(`/alarms/${alarm.id}/picture.jpg`) })}
          >
            Picture<span class="hidden"> of {message}</span>
          </button>
        )}
        {alarm.acknowledged_by === null && may(me, "operator") && (
          <button type="button" onClick={onAcknowledge}>
            Acknowledge<span class="hidden"> {message}</span>
          </button>
        )}
      </div>
    </li>
  );
}

/** Attributes of an object that applications gave; nothing where there are none. */
function Attributes({ of }: { of: ObjectAnswer }) {
  const said = Object.entries(of.attributes);
  if (said.length === 0) return null;
  const value = (given: string | number) => (typeof given === "number" ? given.toLocaleString(undefined, { maximumSignificantDigits: 4 }) : given);
  return (
    <p>
      {said.map(([name, a], n) => (
        <span key={name}>
          {n > 0 && ", "}
          {name}: <strong>{value(a.value)}</strong>
          {a.score !== null && <span class="quiet small"> ({percent(a.score)})</span>}
        </span>
      ))}
    </p>
  );
}

function ObjectList({ camera, now_s, onPicture }: { camera: Camera; now_s: number; onPicture: (shown: Shown) => void }) {
  const found = usePaged<ObjectAnswer>(`/objects?camera=${encodeURIComponent(camera.id)}`, PAGE, null, 10);
  return (
    <section class="card" aria-labelledby="camera-objects">
      <div class="card-head">
        <h2 id="camera-objects">Objects</h2>
        <p>
          <a href={`${href("find")}?cameras=${encodeURIComponent(camera.id)}`}>Find objects</a>, <a href={href("day", camera.id)}>the day</a>
        </p>
      </div>
      {found.rows === null ? (
        found.error === null ? (
          <Loading />
        ) : missing(found.error) ? (
          <p class="quiet">Objects are not kept on this appliance.</p>
        ) : (
          <ErrorBox what="The objects could not be loaded" error={found.error} onRetry={found.again} />
        )
      ) : found.rows.length === 0 ? (
        <Empty title="No object yet">Each object that stays in the picture for a moment is followed and listed once.</Empty>
      ) : (
        <ul class="happenings">
          {found.rows.map((seen) => (
            <li key={seen.id}>
              <p>
                <strong>{seen.class}</strong> <span class="quiet">({percent(seen.score)} sure)</span>
                {seen.zones.length > 0 && ` in ${seen.zones.join(", ")}`}
              </p>
              <Attributes of={seen} />
              <p class="quiet small">
                {moment(seen.began_utc_s)},{" "}
                {seen.ended_utc_s === null ? `in the picture, came ${ago(now_s - seen.began_utc_s)}` : `for ${duration(seen.ended_utc_s - seen.began_utc_s)}`}
              </p>
              {seen.picture && (
                <div class="row-actions">
                  <button
                    type="button"
                    onClick={() => onPicture({ title: `${seen.class}, ${moment(seen.began_utc_s)}`, url: pictureUrl(`/objects/${seen.id}/picture.jpg`) })}
                  >
                    Picture<span class="hidden"> of {seen.class}</span>
                  </button>
                </div>
              )}
            </li>
          ))}
        </ul>
      )}
      <Older of={found} words="Older" />
    </section>
  );
}
