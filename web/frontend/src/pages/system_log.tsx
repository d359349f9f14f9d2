/** The log's newest records, followed. */

import { useEffect, useState } from "preact/hooks";

import type { LogAnswer, LogLine } from "../answers";
import { ask } from "../api";
import { clock } from "../format";
import { Badge } from "../parts/badge";
import type { Tone } from "../parts/badge";
import { Empty, ErrorBox, Loading } from "../parts/states";

const FIRST = 200;
const MOST = 1000;
const EVERY_MS = 2000;
const TYPED_MS = 300;
const LEVELS: Record<string, string> = { DEBUG: "everything", INFO: "information", WARNING: "warnings", ERROR: "errors" };
const TONES: Record<string, Tone> = { DEBUG: "off", INFO: "info", WARNING: "wait", ERROR: "bad", CRITICAL: "bad" };

interface Records {
  /** The newest first; null until the first answer. */
  entries: LogLine[] | null;
  /** The newest answer: what the appliance keeps of its log. */
  kept: LogAnswer | null;
  error: unknown;
  again: () => void;
}

/** The log's newest records of a level or worse that hold a text; with `follow` the new ones come in by themselves. */
function useRecords(level: string, text: string, follow: boolean): Records {
  const [entries, setEntries] = useState<LogLine[] | null>(null);
  const [kept, setKept] = useState<LogAnswer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [tries, setTries] = useState(0);

  useEffect(() => setEntries(null), [level, text]);

  useEffect(() => {
    let timer = 0;
    let shown = true;
    const filters = `level=${level}${text ? `&text=${encodeURIComponent(text)}` : ""}`;
    const load = async (after: number): Promise<void> => {
      let newest = after;
      try {
        const answer = await ask<LogAnswer>(`/log?${filters}&limit=${after > 0 ? MOST : FIRST}${after > 0 ? `&after=${after}` : ""}`);
        if (!shown) return;
        newest = answer.records[0]?.id ?? after;
        setEntries((before) => (after > 0 ? [...answer.records, ...(before ?? [])] : answer.records).slice(0, MOST));
        setKept(answer);
        setError(null);
      } catch (failure) {
        if (shown) setError(failure);
      }
      if (shown && follow) timer = window.setTimeout(() => void load(newest), EVERY_MS);
    };
    void load(0);
    return () => {
      shown = false;
      clearTimeout(timer);
    };
  }, [level, text, follow, tries]);
  return { entries, kept, error, again: () => setTries(tries + 1) };
}

export function Log() {
  const [level, setLevel] = useState("INFO");
  const [typed, setTyped] = useState("");
  const [text, setText] = useState("");
  const [follow, setFollow] = useState(true);

  useEffect(() => {
    const timer = setTimeout(() => setText(typed.trim()), TYPED_MS);
    return () => clearTimeout(timer);
  }, [typed]);

  const { entries, kept, error, again } = useRecords(level, text, follow);
  const logged = kept === null ? "" : loggedWords(kept.level);
  return (
    <section class="card" aria-labelledby="log-title">
      <div class="card-head">
        <h2 id="log-title">Log</h2>
        <div class="filters">
          <label>
            At least{" "}
            <select value={level} onChange={(e) => setLevel(e.currentTarget.value)}>
              {Object.entries(LEVELS).map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          <label>
            Search <input type="search" value={typed} maxLength={200} spellcheck={false} onInput={(e) => setTyped(e.currentTarget.value)} />
          </label>
          <label class="check">
            <input type="checkbox" checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} /> Follow
          </label>
        </div>
      </div>
      {error !== null && <ErrorBox what="The log could not be loaded" error={error} onRetry={again} />}
      {entries === null && error === null && <Loading what="Loading the log" />}
      {entries?.length === 0 && <Empty title="No such record">{text || level !== "DEBUG" ? "A lower level or another text may find some." : "Nothing was logged yet."}{logged}</Empty>}
      {entries !== null && entries.length > 0 && <LogLines entries={entries} />}
      {kept && (
        <p class="quiet table-note">
          The newest {kept.capacity.toLocaleString()} records of the control process are in memory
          {kept.forgotten > 0 && `; ${kept.forgotten.toLocaleString()} older ones are no longer`}. Everything, with the workers' own records, goes
          to the service's output.{logged}
        </p>
      )}
    </section>
  );
}

/** The level that the appliance logs at, where that is not everything. */
function loggedWords(level: string): string {
  if (level === "DEBUG" || !LEVELS[level]) return "";
  return ` This appliance logs ${level === "ERROR" ? "errors" : `${LEVELS[level]} and worse`} (option --log-level at its start).`;
}

function LogLines({ entries }: { entries: LogLine[] }) {
  return (
    <ol class="log" tabIndex={0} aria-label="Log records, newest first">
      {entries.map((e) => (
        <li key={e.id}>
          <time title={new Date(1000 * e.utc_s).toLocaleString()}>{clock(e.utc_s)}</time>
          <Badge tone={TONES[e.level] ?? "info"}>{e.level.toLowerCase()}</Badge>
          <span class="message">
            {e.camera && <b>{e.camera}: </b>}
            {e.message}
            {e.cause && <span class="quiet"> – {e.cause}</span>}
            {e.window !== null && <span class="quiet"> (window {e.window})</span>}
            {e.error && (
              <details>
                <summary>Traceback</summary>
                <pre>{e.error}</pre>
              </details>
            )}
          </span>
          <span class="quiet logger">{e.worker ?? e.logger}</span>
        </li>
      ))}
    </ol>
  );
}
