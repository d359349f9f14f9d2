/** Objects by camera, class, place, time and stay, as pictures; each leads to its clip. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { FoundObject, FoundObjects } from "../answers";
import type { CameraRecord, Me } from "../api";
import { ask, pictureUrl } from "../api";
import { duration, moment, percent } from "../format";
import { useAsked } from "../parts/asking";
import { MomentClip } from "../parts/moment_clip";
import { Older } from "../parts/older";
import { Several } from "../parts/several";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { go, href, useRoute } from "../router";
import "../styles/find.css";
import type { PageProps } from "./page";

const PAGE = 40;
const DAY_S = 86_400;
const WAYS = { "": "in either direction", forward: "forward", backward: "backward" } as const;
/** The query in the address; names as REST has them. */
const LISTS = ["cameras", "classes"] as const;
const FIELDS = ["zone", "line", "way", "from", "to", "least_s", "most_s", "attribute"] as const;
type List = (typeof LISTS)[number];
type Field = (typeof FIELDS)[number];
type Asked = Partial<Record<Field, string> & Record<List, string[]>>;

function askedOf(query: URLSearchParams): Asked {
  const asked: Asked = {};
  for (const list of LISTS) {
    const values = query.getAll(list).filter(Boolean);
    if (values.length > 0) asked[list] = values;
  }
  for (const field of FIELDS) {
    const value = query.get(field);
    if (value) asked[field] = value;
  }
  return asked;
}

/** As REST, and the address, have it: a name of a list once each, because it may have a comma. */
function queryOf(asked: Asked): URLSearchParams {
  const query = new URLSearchParams();
  for (const list of LISTS) for (const one of asked[list] ?? []) query.append(list, one);
  for (const field of FIELDS) {
    const value = asked[field];
    if (value) query.set(field, value);
  }
  return query;
}

/** The address of a search. */
export function searchHref(asked: Asked): string {
  const query = queryOf(asked).toString();
  return `${href("find")}${query && `?${query}`}`;
}

function local(utc_s: string | undefined): string {
  if (utc_s === undefined || !Number.isFinite(Number(utc_s))) return "";
  const at = new Date(1000 * Number(utc_s));
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

function utc(text: string): string | undefined {
  const at = new Date(text).getTime() / 1000;
  return Number.isFinite(at) ? String(at) : undefined;
}

export function FindPage({ known, me, now_s }: PageProps) {
  const route = useRoute();
  const asked = askedOf(route.query);
  const key = searchHref(asked);
  // The same search asked for again is looked for anew.
  const [round, setRound] = useState(0);
  const find = (wanted: Asked): void => (searchHref(wanted) === key ? setRound(round + 1) : go(searchHref(wanted)));
  const records = useAsked<CameraRecord[]>("/cameras");
  const cameras = known.overview?.cameras ?? [];
  const named = (id: string): string => cameras.find((c) => c.id === id)?.name || id;
  const first = asked.cameras?.[0] ?? cameras[0]?.id;
  return (
    <>
      <div class="page-head">
        <h1>Find</h1>
        <p class="quiet">Each object that was followed, once, the newest first.</p>
        {first !== undefined && (
          <p class="tools">
            <a href={href("day", first)}>A camera's day</a>
          </p>
        )}
      </div>
      {records.error !== null && <ErrorBox what="The classes, zones and lines of the cameras could not be loaded" error={records.error} onRetry={records.again} />}
      <SearchForm key={key} asked={asked} records={records.value ?? []} named={named} now_s={now_s} onFind={find} />
      <Results key={`found ${round} ${key}`} asked={asked} named={named} me={me} now_s={now_s} />
    </>
  );
}

interface FormProps {
  asked: Asked;
  records: CameraRecord[];
  named: (id: string) => string;
  now_s: number;
  onFind: (asked: Asked) => void;
}

function SearchForm({ asked, records, named, now_s, onFind }: FormProps) {
  const [draft, setDraft] = useState<Asked>(asked);
  const set = (field: Field, value: string | undefined): void => {
    const next = { ...draft };
    if (value) next[field] = value;
    else delete next[field];
    if (field === "line" && !value) delete next.way;
    setDraft(next);
  };
  const list = (field: List): string[] => draft[field] ?? [];
  const choose = (field: List, names: string[]): void => setDraft({ ...draft, [field]: names });
  const chosen = records.filter((r) => list("cameras").length === 0 || list("cameras").includes(r.settings.id));
  const classes = [...new Set([...records.flatMap((r) => r.settings.classes ?? []), ...list("classes")])].sort();
  const since = (seconds: number): void => {
    const next: Asked = { ...draft, from: String(Math.floor(now_s - seconds)) };
    delete next.to;
    onFind(next);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    onFind(draft);
  };
  return (
    <form class="card find-form" aria-label="What is looked for" onSubmit={submit}>
      <Several label="Cameras" all="all" options={records.map((r) => [r.settings.id, named(r.settings.id)])} chosen={list("cameras")} onChange={(v) => choose("cameras", v)} />
      <Several label="Classes" all="all" options={classes.map((c) => [c, c])} chosen={list("classes")} onChange={(v) => choose("classes", v)} />
      <Places draft={draft} cameras={chosen} onSet={set} />
      <Times draft={draft} onSet={set} />
      <label>
        Attribute
        <input type="text" placeholder="colour:red" pattern="[^:]+:.+" title="NAME:LABEL, as an application gives it" value={draft.attribute ?? ""} onInput={(e) => set("attribute", e.currentTarget.value)} />
      </label>
      <div class="actions">
        <button type="submit" class="primary">
          Find
        </button>
        <button type="button" onClick={() => since(3600)}>
          Last hour
        </button>
        <button type="button" onClick={() => since(DAY_S)}>
          Last 24 hours
        </button>
        {Object.keys(asked).length > 0 && <a href={href("find")}>Everything</a>}
      </div>
      <p class="quiet small">Times are those of this browser.</p>
    </form>
  );
}

interface PartProps {
  draft: Asked;
  onSet: (field: Field, value: string | undefined) => void;
}

/** The zone or line where it was, among those of the chosen cameras. */
function Places({ draft, cameras, onSet }: PartProps & { cameras: CameraRecord[] }) {
  const zones = cameras.flatMap((r) => (r.settings.zones ?? []).map((z) => z.name));
  const lines = cameras.flatMap((r) => (r.settings.lines ?? []).map((l) => l.name));
  return (
    <>
      <PlaceChoice label="Zone" names={zones} value={draft.zone} onChange={(name) => onSet("zone", name)} />
      <PlaceChoice label="Line" names={lines} value={draft.line} onChange={(name) => onSet("line", name)} />
      {draft.line && (
        <label>
          Crossed
          <select value={draft.way ?? ""} onChange={(e) => onSet("way", e.currentTarget.value)}>
            {Object.entries(WAYS).map(([way, words]) => (
              <option key={way} value={way}>
                {words}
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}

interface PlaceProps {
  label: string;
  names: string[];
  /** Offered, too, where none of the cameras has it. */
  value: string | undefined;
  onChange: (name: string) => void;
}

function PlaceChoice({ label, names, value, onChange }: PlaceProps) {
  const offered = [...new Set([...names, ...(value ? [value] : [])])].sort();
  return (
    <label>
      {label}
      <select value={value ?? ""} onChange={(e) => onChange(e.currentTarget.value)}>
        <option value="">any, or none</option>
        {offered.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

/** When it came, and how long it stayed. */
function Times({ draft, onSet }: PartProps) {
  return (
    <>
      <label>
        Came from
        <input type="datetime-local" value={local(draft.from)} onChange={(e) => onSet("from", utc(e.currentTarget.value))} />
      </label>
      <label>
        Came before
        <input type="datetime-local" value={local(draft.to)} onChange={(e) => onSet("to", utc(e.currentTarget.value))} />
      </label>
      <label>
        Stayed at least (s)
        <input type="number" min="0" step="any" value={draft.least_s ?? ""} onInput={(e) => onSet("least_s", e.currentTarget.value)} />
      </label>
      <label>
        Stayed at most (s)
        <input type="number" min="0" step="any" value={draft.most_s ?? ""} onInput={(e) => onSet("most_s", e.currentTarget.value)} />
      </label>
    </>
  );
}

interface ResultProps {
  asked: Asked;
  named: (id: string) => string;
  me: Me;
  now_s: number;
}

function Results({ asked, named, me, now_s }: ResultProps) {
  const query = queryOf(asked);
  query.set("limit", String(PAGE));
  const path = `/objects/search?${query.toString()}`;
  const first = useAsked<FoundObjects>(path);
  const [more, setMore] = useState<FoundObjects[]>([]);
  const [failure, setFailure] = useState<unknown>(null);
  const [shown, setShown] = useState<FoundObject | null>(null);
  const alive = useRef(true);
  useEffect(() => () => void (alive.current = false), []);
  if (first.error !== null) return <ErrorBox what="The search was refused, or not answered" error={first.error} onRetry={first.again} />;
  if (first.value === null) return <Loading what="Looking for objects" />;
  const pages = [first.value, ...more];
  const found = pages.flatMap((p) => p.found);
  const last = pages.at(-1) ?? first.value;
  const older = async (): Promise<void> => {
    try {
      const next = await ask<FoundObjects>(`${path}&after=${encodeURIComponent(last.next ?? "")}`);
      if (alive.current) setMore([...more, next]);
      setFailure(null);
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <section class="card" aria-labelledby="found-title">
      <h2 id="found-title">Found</h2>
      {found.length === 0 ? (
        <Empty title={last.next === null ? "No such object" : "None so far"}>
          {last.next === null
            ? "Nothing that is kept is like that. Objects are kept for as long as the settings say (retention)."
            : "There are older ones that were not looked at yet."}
        </Empty>
      ) : (
        <ul class="found">
          {found.map((one) => (
            <li key={one.object.id}>
              <Result one={one} asked={asked} name={named(one.camera)} now_s={now_s} onShow={() => setShown(one)} />
            </li>
          ))}
        </ul>
      )}
      {last.next !== null && last.looked_back_to_utc_s !== null && last.found.length < PAGE && (
        <p class="quiet">Looked back to {moment(last.looked_back_to_utc_s)}.</p>
      )}
      {failure !== null && <ErrorBox what="Older ones could not be loaded" error={failure} />}
      <Older of={{ older: last.next === null ? null : older }} words="Look further back" />
      {shown && (
        <MomentClip
          camera={shown.camera}
          name={named(shown.camera)}
          at_utc_s={momentOf(shown, asked)}
          me={me}
          {...(shown.object.picture && { picture: { url: pictureUrl(`/objects/${shown.object.id}/picture.jpg`), alt: `${shown.object.class} on ${named(shown.camera)}` } })}
          onClose={() => setShown(null)}
        />
      )}
    </section>
  );
}

/** When it crossed the line that was asked for; else when it came. */
function momentOf(one: FoundObject, asked: Asked): number {
  const crossed = one.lines.find((l) => l.line === asked.line && (!asked.way || l.way === asked.way));
  return crossed?.at_utc_s ?? one.object.began_utc_s;
}

interface OneProps {
  one: FoundObject;
  asked: Asked;
  name: string;
  now_s: number;
  onShow: () => void;
}

function Result({ one, asked, name, now_s, onShow }: OneProps) {
  const seen = one.object;
  const [gone, setGone] = useState(false);
  const stay = (seen.ended_utc_s ?? now_s) - seen.began_utc_s;
  const attributes = Object.entries(seen.attributes);
  return (
    <>
      <button type="button" class="found-picture" onClick={onShow}>
        {seen.picture && !gone ? (
          <img src={pictureUrl(`/objects/${seen.id}/picture.jpg`)} alt="" loading="lazy" onError={() => setGone(true)} />
        ) : (
          <span class="quiet">no picture</span>
        )}
        <span class="hidden">
          Clip of this {seen.class} on {name}, {moment(momentOf(one, asked))}
        </span>
      </button>
      <p>
        <strong>{seen.class}</strong> <span class="quiet">({percent(seen.score)} sure)</span>
      </p>
      <p class="small">
        {name}, {moment(seen.began_utc_s)}
      </p>
      <p class="quiet small">
        {seen.ended_utc_s === null ? `in view for ${duration(Math.max(0, stay))} by now` : `in view for ${duration(stay)}`}
        {seen.zones.length > 0 && `; in ${seen.zones.join(", ")}`}
        {one.lines.length > 0 && `; over ${one.lines.map((l) => `${l.line} (${l.way})`).join(", ")}`}
        {attributes.length > 0 && `; ${attributes.map(([key, a]) => `${key}: ${a.value}`).join(", ")}`}
      </p>
    </>
  );
}
