/** A camera's day: objects, alarms, retrainings, times that were not watched, clips; each point leads to what it is. */

import { useEffect, useState } from "preact/hooks";

import type { AlarmAnswer, ClipAnswer, OutageAnswer, RetrainingOfDay, TimelineAnswer } from "../answers";
import type { Camera, Me } from "../api";
import { duration, percent } from "../format";
import { useAsked } from "../parts/asking";
import { cameraColour } from "../parts/colours";
import type { LaneItem } from "../parts/lane";
import { Lane } from "../parts/lane";
import { MomentClip } from "../parts/moment_clip";
import { SEVERITIES } from "../parts/severity";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { go, href, useRoute } from "../router";
import "../styles/find.css";
import { CLIP_FAULTS } from "../words";
import { searchHref } from "./find";
import type { PageProps } from "./page";

const EVERY_S = 60;
const NARROW = "(max-width: 700px)";
const DAY = /^\d{4}-\d{2}-\d{2}$/;

const OUTAGES: Record<OutageAnswer["cause"], string> = {
  box_off: "the box was off",
  removed: "the camera was removed",
  stopped: "the camera was switched off",
  worker_lost: "the camera's worker failed",
  refused: "the camera refused",
  stalled: "the camera sent no pictures",
  reconnecting: "the camera was lost",
  connecting: "the camera was being connected",
  starting: "the camera was starting",
  not_watched: "too few answers: not watched",
};
const FAULTS: Record<NonNullable<OutageAnswer["fault"]>, string> = {
  unreachable: "it could not be reached",
  refused: "it refused the log-in",
  not_found: "it has no such stream",
  silent: "no picture came",
  frozen: "its picture stood still",
  ended: "its stream ended",
  damaged: "its stream was damaged",
  unsupported: "its stream is not supported",
};
const CUT: Record<TimelineAnswer["cut"][number], string> = {
  alarms: "the newest alarms",
  retrainings: "the newest retrainings",
  outages: "the first outages",
  clips: "the newest clips",
};
const ENDS: Record<RetrainingOfDay["state"], string> = {
  running: "goes on",
  completed: "the gate kept the old model",
  failed: "failed",
  stopped: "was stopped",
  interrupted: "was interrupted",
};

function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const changed = (): void => setNarrow(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return narrow;
}

/** A day of an address; null where no calendar has it. */
function dayOf(text: string | null): string | null {
  if (text === null || !DAY.test(text)) return null;
  const at = new Date(`${text}T12:00:00Z`);
  return Number.isNaN(at.getTime()) || at.toISOString().slice(0, 10) !== text ? null : text;
}

/** The day so many days after another. */
function dayBeside(day: string, days: number): string {
  const at = new Date(`${day}T12:00:00Z`);
  at.setUTCDate(at.getUTCDate() + days);
  return at.toISOString().slice(0, 10);
}

function dayHref(camera: string, day: string | null): string {
  return `${href("day", camera)}${day === null ? "" : `?day=${day}`}`;
}

export function DayPage({ known, me }: PageProps) {
  const route = useRoute();
  const cameras = known.overview?.cameras ?? [];
  const camera = route.rest[0] ?? cameras[0]?.id ?? null;
  const day = dayOf(route.query.get("day"));
  const narrow = useNarrow();
  const query = new URLSearchParams({ bucket_s: narrow ? "3600" : "600", ...(day !== null && { day }) });
  const [today, setToday] = useState<string | null>(null);
  const over = day !== null && today !== null && day < today;
  const found = useAsked<TimelineAnswer>(camera === null ? null : `/cameras/${encodeURIComponent(camera)}/timeline?${query.toString()}`, null, over ? null : EVERY_S);
  // A day that is over does not change any more.
  useEffect(() => {
    if (found.value !== null) setToday(found.value.today);
  }, [found.value]);
  const shown = day ?? found.value?.day ?? null;
  const name = cameras.find((c) => c.id === camera)?.name || camera || "";
  return (
    <>
      <div class="page-head">
        <p class="crumb">
          <a href={href("find")}>Find</a> <span aria-hidden="true">/</span>
        </p>
        <h1>A camera's day</h1>
      </div>
      <DayChoice cameras={cameras} camera={camera} day={day} shown={shown} today={today} />
      {camera === null && known.overview === null ? (
        <Loading what="Loading the cameras" />
      ) : camera === null ? (
        <Empty title="No camera yet" level={2}>
          A day begins with the first camera.
        </Empty>
      ) : found.error !== null && found.value === null ? (
        <ErrorBox what="The day could not be loaded" error={found.error} onRetry={found.again} />
      ) : found.value === null ? (
        <Loading what="Loading the day" />
      ) : (
        <>
          {found.error !== null && <ErrorBox what={`The day could not be loaded again; this is as of ${boxClock(found.value, found.value.now_utc_s)}`} error={found.error} onRetry={found.again} />}
          <Day day={found.value} name={name} me={me} />
        </>
      )}
    </>
  );
}

interface ChoiceProps {
  cameras: Camera[];
  camera: string | null;
  /** As the address has it; null: today. */
  day: string | null;
  /** The day that is shown; null: it is not known yet. */
  shown: string | null;
  today: string | null;
}

function DayChoice({ cameras, camera, day, shown, today }: ChoiceProps) {
  return (
    <section class="card day-asked" aria-label="What is shown">
      <label>
        Camera{" "}
        <select value={camera ?? ""} onChange={(e) => go(dayHref(e.currentTarget.value, day))}>
          {camera !== null && !cameras.some((c) => c.id === camera) && <option value={camera}>{camera}</option>}
          {cameras.map((c) => (
            <option key={c.id} value={c.id}>
              {c.name || c.id}
            </option>
          ))}
        </select>
      </label>
      {camera !== null && shown !== null && (
        <>
          <label>
            Day{" "}
            <input type="date" value={shown} {...(today !== null && { max: today })} onChange={(e) => go(dayHref(camera, e.currentTarget.value || null))} />
          </label>
          <a href={dayHref(camera, dayBeside(shown, -1))}>← Day before</a>
          {today !== null && shown < today && <a href={dayHref(camera, dayBeside(shown, 1))}>Day after →</a>}
        </>
      )}
    </section>
  );
}

/** A time as the box's clock showed it; with the date where it is before the day. */
function boxClock(day: TimelineAnswer, utc_s: number, seconds = false): string {
  const hour = day.hours.filter((h) => h.at_utc_s <= utc_s).at(-1) ?? day.hours[0];
  const shown = new Date(1000 * (utc_s + (hour?.ahead_s ?? 0))).toISOString();
  return `${utc_s < day.from_utc_s ? `${shown.slice(0, 10)} ` : ""}${shown.slice(11, seconds ? 19 : 16)}`;
}

function Day({ day, name, me }: { day: TimelineAnswer; name: string; me: Me }) {
  const [said, setSaid] = useState("");
  const [at, setAt] = useState<Moment | null>(null);
  const classes = [...new Set(day.buckets.flatMap((b) => Object.keys(b.objects)))].sort();
  const happened = [
    ...day.alarms.map((a) => ofAlarm(day, a, setAt)),
    ...day.retrainings.map((r) => ofRetraining(day, r)),
    ...day.outages.map((o) => ofOutage(day, o)),
    ...day.clips.map((c) => ofClip(day, c, setAt)),
  ].sort((a, b) => a.from_s - b.from_s);
  const empty = classes.length === 0 && happened.length === 0;
  return (
    <>
      {day.camera_state !== "on" && (
        <p class="day-note" role="note">
          {day.camera_state === "off" ? "This camera is switched off now." : "This camera was removed; its records stay until their retention ends."}
        </p>
      )}
      <section class="card" aria-labelledby="day-title">
        <h2 id="day-title">
          {name}, {day.day}
        </h2>
        {empty && <p>Nothing was recorded on this day.</p>}
        <p class="quiet small">
          Times are those of the box. Tab goes from row to row, the arrow keys along it. A bar of objects leads to these objects, an alarm and a clip to the clip.
        </p>
        <Lanes day={day} classes={classes} happened={happened} onPoint={setSaid} />
        {classes.length > 0 && (
          <p class="day-legend">
            {classes.map((one, n) => (
              <span key={one}>
                <span class="key" style={{ background: cameraColour(n) }} aria-hidden="true" />
                {one}
              </span>
            ))}
          </p>
        )}
        <p class="day-said quiet">{said}</p>
        {(day.known_from_utc_s === null || day.known_from_utc_s > day.from_utc_s) && (
          <p class="quiet small">
            {day.known_from_utc_s === null ? "Whether the camera was watched on this day is not known" : `Whether the camera was watched before ${boxClock(day, day.known_from_utc_s)} is not known`}: the camera was added later, or the journal does not reach back so far.
          </p>
        )}
        {day.cut.length > 0 && <p class="quiet small">There are too many to show all of the day; these are shown: {day.cut.map((lane) => CUT[lane]).join(", ")}.</p>}
      </section>
      {happened.length > 0 && <HappenedTable day={day} happened={happened} />}
      {at !== null && <MomentClip camera={day.camera} name={name} at_utc_s={at.at_utc_s} me={me} {...(at.clip !== null && { clip: at.clip })} onClose={() => setAt(null)} />}
    </>
  );
}

interface LanesProps {
  day: TimelineAnswer;
  classes: string[];
  happened: Happened[];
  /** Gets the words of what is pointed at. */
  onPoint: (words: string) => void;
}

function Lanes({ day, classes, happened, onPoint }: LanesProps) {
  const lane = (title: string, items: LaneItem[], tall = false) => (
    <Lane title={title} items={items} from_s={day.from_utc_s} to_s={day.to_utc_s} now_s={day.now_utc_s} tall={tall} onPoint={onPoint} />
  );
  const of = (kind: Kind): Happened[] => happened.filter((h) => h.kind === kind);
  return (
    <div class="lanes">
      {lane("Objects", bars(day, classes), true)}
      {lane("Alarms", of("alarm"))}
      {lane("Retrainings", of("retraining"))}
      {lane("Not watched", of("outage"))}
      {lane("Clips", of("clip"))}
      <div class="day-hours" aria-hidden="true">
        {day.hours.map((hour, n) => (
          <span key={hour.at_utc_s} style={{ left: `${(100 * (hour.at_utc_s - day.from_utc_s)) / (day.to_utc_s - day.from_utc_s)}%` }}>
            {n % 2 === 0 ? hour.label.slice(0, hour.label.endsWith("00") ? 2 : 5) : ""}
          </span>
        ))}
      </div>
    </div>
  );
}

function HappenedTable({ day, happened }: { day: TimelineAnswer; happened: Happened[] }) {
  return (
    <section class="card" aria-labelledby="day-happened">
      <h2 id="day-happened">What happened</h2>
      <Table
        caption="Alarms, retrainings, outages and clips of the day"
        columns={[
          { key: "when", title: "When", cell: (h) => boxClock(day, h.from_s, true) },
          { key: "what", title: "What", cell: (h) => h.text },
          { key: "more", title: "", cell: (h) => (h.more === null || h.onOpen === null ? "" : <button type="button" onClick={h.onOpen}>{h.more}<span class="hidden">: {h.text}</span></button>) },
        ]}
        rows={happened}
        rowKey={(h) => h.key}
      />
    </section>
  );
}

/** A bar for each bucket that has objects, its classes stacked. */
function bars(day: TimelineAnswer, classes: string[]): LaneItem[] {
  const sum = (objects: Record<string, number>): number => Object.values(objects).reduce((a, b) => a + b, 0);
  const most = Math.max(1, ...day.buckets.map((b) => sum(b.objects)));
  return day.buckets
    .filter((b) => sum(b.objects) > 0)
    .map((b) => {
      const found = classes.filter((one) => (b.objects[one] ?? 0) > 0);
      return {
        key: b.from_utc_s,
        from_s: b.from_utc_s,
        to_s: b.to_utc_s,
        words: `${boxClock(day, b.from_utc_s)} to ${boxClock(day, b.to_utc_s)}: ${found.map((one) => `${b.objects[one]} ${one}`).join(", ")}`,
        tone: "",
        inside: found.map((one) => (
          <span key={one} class="part" style={{ height: `${(100 * (b.objects[one] ?? 0)) / most}%`, background: cameraColour(classes.indexOf(one)) }} />
        )),
        onOpen: () => go(searchHref({ cameras: [day.camera], from: String(b.from_utc_s), to: String(b.to_utc_s) })),
      };
    });
}

type Kind = "alarm" | "retraining" | "outage" | "clip";
/** A moment of the day, and the clip of it, where one is known. */
interface Moment {
  at_utc_s: number;
  clip: number | null;
}
interface Happened extends LaneItem {
  kind: Kind;
  /** Without the time. */
  text: string;
  /** The word on its button; null: it leads nowhere. */
  more: string | null;
}

function happening(day: TimelineAnswer, kind: Kind, key: number, from_s: number, to_s: number, tone: string, text: string, more: string | null, onOpen: (() => void) | null): Happened {
  return { kind, key: `${kind} ${key}`, from_s, to_s, tone, text, more, words: `${boxClock(day, from_s, true)}: ${text}`, onOpen };
}

function ofAlarm(day: TimelineAnswer, alarm: AlarmAnswer, onMoment: (at: Moment) => void): Happened {
  const [label, tone] = SEVERITIES[alarm.severity];
  const lasted = alarm.ended_utc_s === null ? "goes on" : `for ${duration(Math.max(0, alarm.ended_utc_s - alarm.began_utc_s))}`;
  const clip = day.clips.find((c) => c.state !== "failed" && c.alarms.includes(alarm.id))?.id ?? null;
  const text = `${label}: ${alarm.message || alarm.rule_name}, ${lasted}`;
  return happening(day, "alarm", alarm.id, alarm.began_utc_s, alarm.ended_utc_s ?? day.now_utc_s, tone === "bad" ? "bad" : "wait", text, "Clip", () => onMoment({ at_utc_s: alarm.began_utc_s, clip }));
}

function ofRetraining(day: TimelineAnswer, one: RetrainingOfDay): Happened {
  const gain = one.accuracy_before === null || one.accuracy_after === null ? "" : ` (${percent(one.accuracy_before)} before, ${percent(one.accuracy_after)} after)`;
  const text = `Retraining in window ${one.window}: ${one.promoted ? "its model took over" : ENDS[one.state]}${gain}`;
  const tone = one.promoted ? "good" : one.state === "failed" ? "bad" : "plain";
  return happening(day, "retraining", one.started_utc_s, one.started_utc_s, one.ended_utc_s ?? day.now_utc_s, tone, text, `Window ${one.window}`, () => go(href("windows", one.window)));
}

function ofOutage(day: TimelineAnswer, one: OutageAnswer): Happened {
  const to_s = one.to_utc_s ?? day.now_utc_s;
  const fault = one.fault === null ? "" : ` (${FAULTS[one.fault]})`;
  const text = `Not watched for ${duration(to_s - one.from_utc_s)}: ${OUTAGES[one.cause]}${fault}${one.to_utc_s === null ? "; it goes on" : ""}`;
  return happening(day, "outage", one.from_utc_s, one.from_utc_s, to_s, "outage", text, null, null);
}

function ofClip(day: TimelineAnswer, clip: ClipAnswer, onMoment: (at: Moment) => void): Happened {
  const { video, failure } = clip;
  const state = video !== null ? `Clip of ${duration(video.seconds)}` : failure === null ? "Clip in the making" : `No clip: ${CLIP_FAULTS[failure.fault] ?? failure.fault}`;
  const begins = video?.begins_utc_s ?? clip.from_utc_s;
  const ends = video === null ? clip.to_utc_s : begins + video.seconds;
  const good = clip.state !== "failed";
  return happening(day, "clip", clip.id, begins, ends, good ? "video" : "plain", state, good ? "Play" : null, good ? () => onMoment({ at_utc_s: clip.at_utc_s, clip: clip.id }) : null);
}
