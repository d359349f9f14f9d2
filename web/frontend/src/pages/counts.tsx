/** Counts: how many objects passed, by hour or day, each with how true it is; time that was not watched is shown. */

import { useState } from "preact/hooks";

import type { ComparedBucket, ComparedCount, ComparisonAnswer, CountAnswer, CountsAnswer } from "../answers";
import { PREFIX } from "../api";
import { duration, percent } from "../format";
import { useAsked } from "../parts/asking";
import { TurningMatrix } from "../parts/turning";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { go, href, useRoute } from "../router";
import type { PageProps } from "./page";
import "../styles/counts.css";

const EVERY_S = 60;
const DAY_S = 86_400;
const WEEK_S = 7 * DAY_S;
/** A minute is written when it is over, some seconds later. */
const WRITTEN_AFTER_S = 90;

const FORMAT_WORDS = { csv: "CSV", parquet: "Parquet" } as const;

type Span = "day" | "week";

/** Midnight of this browser's day, UTC seconds. */
function midnight(utc_s: number): number {
  const day = new Date(1000 * utc_s);
  day.setHours(0, 0, 0, 0);
  return day.getTime() / 1000;
}

function dateText(utc_s: number): string {
  const day = new Date(1000 * utc_s);
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
}

function path(camera: string, from_s: number, to_s: number): string {
  return `/cameras/${encodeURIComponent(camera)}/counts?from=${from_s}&to=${to_s}&step=hour`;
}

/** The same hours of the same weekdays a week before, where clocks were changed too. */
function comparedPath(camera: string, from_s: number, to_s: number): string {
  const before_s = midnight(from_s - WEEK_S + DAY_S / 2);
  return `${path(camera, from_s, to_s).replace("/counts?", "/counts/compared?")}&before=${before_s}`;
}

/** The counted places, in words. */
function placeWords(row: CountAnswer | ComparedCount): string {
  if (row.kind === "line") return `${row.name}, ${row.way}`;
  if (row.kind === "movement") return `${row.name} to ${row.way}`;
  return row.name;
}

function rowKey(row: CountAnswer | ComparedCount): string {
  return [row.kind, row.name, row.way, row.class].join("/");
}

function trueWords(row: CountAnswer): string {
  if (row.corrected === null) return "not known";
  const { value, low, high } = row.corrected;
  return `${Math.round(value)} (${Math.floor(low)} to ${Math.ceil(high)})`;
}

/** The days that are shown, in this browser's zone. */
interface Period {
  span: Span;
  /** Midnight of the last day, and of today. */
  last_s: number;
  today_s: number;
  from_s: number;
  to_s: number;
}

/** `day`: the last one that is shown, as a date; null: today. */
function periodOf(span: Span, day: string | null, now_s: number): Period {
  const today_s = midnight(now_s);
  const last_s = day === null ? today_s : midnight(new Date(`${day}T00:00`).getTime() / 1000);
  const from_s = span === "day" ? last_s : midnight(last_s - 6 * DAY_S + DAY_S / 2);
  return { span, last_s, today_s, from_s, to_s: midnight(last_s + DAY_S + DAY_S / 2) };
}

export function CountsPage({ known, now_s }: PageProps) {
  const cameras = known.overview?.cameras ?? [];
  const asked = useRoute().rest[0];
  const camera = asked ?? cameras[0]?.id ?? null;
  const [span, setSpan] = useState<Span>("day");
  const [day, setDay] = useState<string | null>(null);
  const period = periodOf(span, day, now_s);
  const { from_s, to_s } = period;
  const found = useAsked<CountsAnswer>(camera === null ? null : path(camera, from_s, to_s), null, EVERY_S);
  const beside = useAsked<ComparisonAnswer>(camera === null ? null : comparedPath(camera, from_s, to_s), null, EVERY_S);
  const [only, setOnly] = useState<string | null>(null);
  const classes = [...new Set((found.value?.totals ?? []).map((t) => t.class))].sort();
  const shown = only !== null && classes.includes(only) ? only : null;
  return (
    <>
      <div class="page-head">
        <h1>Counts</h1>
        <p class="quiet">Objects over lines, in zones and from zone to zone; each once. Corrected by what the teacher sees.</p>
      </div>
      <section class="card counts-asked" aria-label="What is shown">
        <label>
          Camera{" "}
          <select value={camera ?? ""} onChange={(e) => go(href("counts", e.currentTarget.value))}>
            {cameras.map((c) => (
              <option key={c.id} value={c.id}>
                {c.name || c.id}
              </option>
            ))}
          </select>
        </label>
        <PeriodChoice period={period} onDay={setDay} onSpan={setSpan} />
        {classes.length > 1 && <ClassChoice classes={classes} shown={shown} onChange={setOnly} />}
        {camera !== null && <Downloads camera={camera} period={period} formats={found.value?.formats ?? []} />}
      </section>
      {camera === null ? (
        <Empty title="No camera yet" level={2}>
          Counts begin with the first camera that has a line or a zone.
        </Empty>
      ) : found.value !== null ? (
        <Found found={found.value} beside={beside.value} only={shown} span={span} now_s={now_s} camera={camera} />
      ) : found.error !== null ? (
        <ErrorBox what="The counts could not be loaded" error={found.error} onRetry={found.again} />
      ) : (
        <Loading what="Loading the counts" />
      )}
    </>
  );
}

interface PeriodProps {
  period: Period;
  onDay: (day: string | null) => void;
  onSpan: (span: Span) => void;
}

function PeriodChoice({ period, onDay, onSpan }: PeriodProps) {
  return (
    <>
      <label>
        {period.span === "day" ? "Day" : "Last day"}{" "}
        <input type="date" value={dateText(period.last_s)} max={dateText(period.today_s)} onChange={(e) => onDay(e.currentTarget.value || null)} />
      </label>
      <label>
        Shown{" "}
        <select value={period.span} onChange={(e) => onSpan(e.currentTarget.value as Span)}>
          <option value="day">one day</option>
          <option value="week">seven days</option>
        </select>
      </label>
    </>
  );
}

/** Null: all classes are shown. */
function ClassChoice({ classes, shown, onChange }: { classes: string[]; shown: string | null; onChange: (name: string | null) => void }) {
  return (
    <label>
      Class{" "}
      <select value={shown ?? ""} onChange={(e) => onChange(e.currentTarget.value || null)}>
        <option value="">all</option>
        {classes.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Downloads({ camera, period, formats }: { camera: string; period: Period; formats: CountsAnswer["formats"] }) {
  const counts = path(camera, period.from_s, period.to_s);
  return (
    <>
      {formats.map((format) => (
        <a key={format} href={`${PREFIX}${counts.replace("/counts?", `/counts.${format}?`)}`} download>
          As {FORMAT_WORDS[format]}
        </a>
      ))}
      {period.span === "day" && (
        <a href={`${PREFIX}/cameras/${encodeURIComponent(camera)}/counts/report.html?day=${dateText(period.last_s)}`} download>
          As report (HTML)
        </a>
      )}
    </>
  );
}

interface FoundProps {
  found: CountsAnswer;
  beside: ComparisonAnswer | null;
  /** The class that is shown; null: all. */
  only: string | null;
  span: Span;
  now_s: number;
  camera: string;
}

function Found({ found, beside, only, span, now_s, camera }: FoundProps) {
  const totals = found.totals.filter((t) => only === null || t.class === only);
  const passed = totals.filter((t) => t.kind === "line");
  const movements = totals.filter((t) => t.kind === "movement");
  const zones = totals.filter((t) => t.kind === "zone");
  const elapsed = Math.max(0, Math.min(now_s - WRITTEN_AFTER_S, found.to_utc_s) - found.from_utc_s);
  const watched_s = found.watched * (found.to_utc_s - found.from_utc_s);
  const missing_s = Math.max(0, elapsed - watched_s);
  if (found.totals.length === 0) return <Nothing watched_s={watched_s} camera={camera} />;
  return (
    <>
      <p class="counts-missing" role="note">
        A first version: on drawn streets these numbers are off by a fifth, corrected ones by an eighth. Look at changes rather than
        at amounts.
      </p>
      {missing_s > 60 && (
        <p class="counts-missing" role="note">
          Not watched for {duration(missing_s)} of {duration(elapsed)}: objects that passed then are in no number here.
        </p>
      )}
      {beside !== null && <ComparedNote beside={beside} />}
      {passed.length > 0 && <Passed rows={passed} beside={beside} />}
      {movements.length > 0 && <TurningMatrix movements={movements} earlier={(t) => earlier(beside, t)} corrected={trueWords} />}
      <Hours found={found} beside={beside} only={only} span={span} now_s={now_s} />
      {zones.length > 0 && <Zones rows={zones} watched_s={watched_s} />}
    </>
  );
}

function Nothing({ watched_s, camera }: { watched_s: number; camera: string }) {
  return (
    <Empty title={watched_s > 0 ? "Nothing was counted" : "This time was not watched"} level={2}>
      {watched_s > 0
        ? `The camera was watched for ${duration(watched_s)}, and nothing passed a line or was in a zone.`
        : "Whether something passed is not known. A camera counts once it has a line or a zone: "}
      {watched_s === 0 && <a href={href("settings", "cameras", camera, "lines")}>draw a line</a>}
    </Empty>
  );
}

function Passed({ rows, beside }: { rows: CountAnswer[]; beside: ComparisonAnswer | null }) {
  return (
    <section class="card" aria-labelledby="counts-passed">
      <h2 id="counts-passed">Passed</h2>
      <Table
        caption="Objects that passed a line, by direction and class"
        columns={[
          { key: "place", title: "Place", cell: placeWords },
          { key: "class", title: "Class", cell: (t) => t.class },
          { key: "objects", title: "Counted", number: true, cell: (t) => t.objects },
          { key: "true", title: "Corrected (90 %)", number: true, cell: trueWords },
          { key: "before", title: "A week before", number: true, cell: (t) => earlier(beside, t) },
        ]}
        rows={rows}
        rowKey={rowKey}
      />
    </section>
  );
}

function Zones({ rows, watched_s }: { rows: CountAnswer[]; watched_s: number }) {
  return (
    <section class="card" aria-labelledby="counts-zones">
      <h2 id="counts-zones">Zones</h2>
      <Table
        caption="Objects in zones"
        columns={[
          { key: "place", title: "Zone", cell: placeWords },
          { key: "class", title: "Class", cell: (t) => t.class },
          { key: "objects", title: "Came in", number: true, cell: (t) => t.objects },
          { key: "true", title: "Corrected (90 %)", number: true, cell: trueWords },
          { key: "mean", title: "There, mean", number: true, cell: (t) => (watched_s > 0 ? (t.seconds / watched_s).toFixed(2) : "–") },
          { key: "most", title: "At once, most", number: true, cell: (t) => t.most },
          { key: "queue", title: "Standing, mean", number: true, cell: (t) => (watched_s > 0 ? (t.standing_s / watched_s).toFixed(2) : "–") },
          { key: "stay", title: "Stay, mean", number: true, cell: (t) => (t.objects > 0 ? duration(t.seconds / t.objects) : "–") },
        ]}
        rows={rows}
        rowKey={rowKey}
      />
    </section>
  );
}

/** How much of the time was watched in both weeks: only that is compared. */
function ComparedNote({ beside }: { beside: ComparisonAnswer }) {
  const hours = beside.buckets.filter((b) => b.compared).length;
  return (
    <p class="quiet">
      {hours === 0
        ? "A week before: no hour was watched in both weeks, so nothing is compared."
        : `A week before: the ${hours} of ${beside.buckets.length} hours that were watched in both weeks are compared, as counted.`}
    </p>
  );
}

/** "36, now 41 (+14 %)": objects of the hours that were watched in both weeks. */
function earlier(beside: ComparisonAnswer | null, row: CountAnswer): string {
  if (beside === null) return "–";
  if (beside.compared === 0) return "not known";
  const same = beside.totals.find((t) => rowKey(t) === rowKey(row));
  if (same === undefined) return "–";
  const change = same.before > 0 ? ` (${same.objects >= same.before ? "+" : "−"}${percent(Math.abs(same.objects - same.before) / same.before)})` : "";
  return same.objects === row.objects ? `${same.before}${change}` : `${same.before}, now ${same.objects}${change}`;
}

interface Bar {
  key: number;
  label: string;
  objects: number;
  /** The part that was watched, of all of it. */
  watched: number;
  /** The part that is over, and written. */
  passed: number;
  /** A week before; null where that was not watched. */
  before: number | null;
}

interface BarsProps {
  found: CountsAnswer;
  beside: ComparisonAnswer | null;
  only: string | null;
  span: Span;
  now_s: number;
}

/** A bar for each hour, or each day of a week; hatched where it was not watched; a mark for the week before. */
function Hours({ found, beside, only, span, now_s }: BarsProps) {
  const bars = span === "day" ? hourBars(found, beside, only, now_s) : dayBars(found, beside, only, now_s);
  const most = Math.max(1, ...bars.map((b) => Math.max(b.objects, b.before ?? 0)));
  return (
    <section class="card" aria-labelledby="counts-hours">
      <h2 id="counts-hours">{span === "day" ? "By hour" : "By day"}</h2>
      <p class="quiet small">
        Objects over lines, {only ?? "all classes"}, as counted. Hatched: the part of the time that was not watched. The mark across a bar is the week before, where that was watched.
      </p>
      <ol class={span === "day" ? "counts-bars of-day" : "counts-bars"}>
        {bars.map((b) => (
          <li key={b.key} title={`${b.label}: ${barWords(b)}`}>
            <span class="bar-box">
              <span class="bar" style={{ height: `${(100 * b.objects) / most}%` }} />
              {b.passed - b.watched > 0.01 && <span class="unseen" style={{ height: `${100 * (b.passed - b.watched)}%` }} />}
              {b.before !== null && <span class="before" style={{ bottom: `${(100 * b.before) / most}%` }} />}
            </span>
            <span class="bar-count">{b.watched > 0 ? b.objects : b.passed > 0 ? "?" : "\u00a0"}</span>
            <span class="bar-label">{b.label}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function barWords(bar: Bar): string {
  const before = bar.before === null ? "" : `; a week before ${bar.before}`;
  if (bar.passed <= 0 && bar.watched <= 0) return `to come${before}`;
  return `${bar.watched > 0 ? bar.objects : "not watched"}${before}`;
}

function overLines<T extends CountAnswer | ComparedCount>(rows: readonly T[], only: string | null, of: (row: T) => number): number {
  return rows.filter((c) => c.kind === "line" && (only === null || c.class === only)).reduce((sum, c) => sum + of(c), 0);
}

/** Of an hour a week before, which was watched for nine tenths: less says too little. */
function beforeOf(bucket: ComparedBucket | undefined, only: string | null): number | null {
  return bucket === undefined || bucket.watched_before < 0.9 ? null : overLines(bucket.counts, only, (c) => c.before);
}

/** The part of a time that is over and written. */
function passedPart(start_s: number, length_s: number, now_s: number): number {
  return Math.min(1, Math.max(0, (now_s - WRITTEN_AFTER_S - start_s) / length_s));
}

function hourBars(found: CountsAnswer, beside: ComparisonAnswer | null, only: string | null, now_s: number): Bar[] {
  return found.buckets.map((bucket, n) => ({
    key: bucket.start_utc_s,
    label: String(new Date(1000 * bucket.start_utc_s).getHours()),
    objects: overLines(bucket.counts, only, (c) => c.objects),
    watched: bucket.watched,
    passed: passedPart(bucket.start_utc_s, 3600, now_s),
    before: beforeOf(beside?.buckets[n], only),
  }));
}

function dayBars(found: CountsAnswer, beside: ComparisonAnswer | null, only: string | null, now_s: number): Bar[] {
  const days = new Map<number, Bar[]>();
  for (const hour of hourBars(found, beside, only, now_s)) {
    const day = midnight(hour.key);
    days.set(day, [...(days.get(day) ?? []), hour]);
  }
  return [...days].map(([day, hours]) => ({
    key: day,
    label: new Date(1000 * day).toLocaleDateString(undefined, { weekday: "short", day: "numeric" }),
    objects: hours.reduce((sum, h) => sum + h.objects, 0),
    watched: hours.reduce((sum, h) => sum + h.watched, 0) / hours.length,
    passed: hours.reduce((sum, h) => sum + h.passed, 0) / hours.length,
    before: hours.every((h) => h.before !== null) ? hours.reduce((sum, h) => sum + (h.before ?? 0), 0) : null,
  }));
}
