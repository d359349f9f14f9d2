/** Pictures about which student and teacher differ: the answers of both, and where they differ. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { DisagreementAnswer, JudgedObject } from "../answers";
import type { Camera, Model } from "../api";
import { pictureUrl } from "../api";
import { moment, percent, shortVersion } from "../format";
import type { Asked } from "../parts/asking";
import { useAsked } from "../parts/asking";
import { Choice } from "../parts/choice";
import { Dialog } from "../parts/dialog";
import { BoxLegend, DrawnBox } from "../parts/drawn_box";
import { Empty, ErrorBox, Loading } from "../parts/states";

type Verdict = JudgedObject["verdict"];
type Kind = "missed" | "extra" | "class";

const KINDS: Record<Kind, string> = { missed: "Missed", extra: "Seen by the model only", class: "Called differently" };
const FIRST = 20;
const MOST = 100;

function counted(names: string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, n]) => (n === 1 ? name : `${name} ×${n}`)).join(", ");
}

/** In words: "The model missed: person ×2", "The model said car, the teacher bus". */
function inWords({ student, teacher }: DisagreementAnswer): string[] {
  const missed = teacher.filter((o) => o.verdict === "missed").map((o) => o.class);
  const extra = student.filter((o) => o.verdict === "extra").map((o) => o.class);
  const mine = student.filter((o) => o.verdict === "class").map((o) => o.class);
  const theirs = teacher.filter((o) => o.verdict === "class").map((o) => o.class);
  return [
    ...(missed.length > 0 ? [`The model missed: ${counted(missed)}`] : []),
    ...(extra.length > 0 ? [`Only the model saw: ${counted(extra)}`] : []),
    ...(mine.length > 0 ? [`The model said ${counted(mine)}, the teacher ${counted(theirs)}`] : []),
  ];
}

function source(camera: string, d: DisagreementAnswer): string {
  return pictureUrl(`/cameras/${encodeURIComponent(camera)}/disagreements/${d.window}/${d.frame}.jpg`);
}

interface Props {
  camera: Camera;
  /** Newest measured window: with a new one there are new pictures. */
  latest: number | null;
}

/** The pictures; while more are fetched the ones that are there stay. */
function useDisagreements(camera: Camera, limit: number, latest: number | null): Asked<DisagreementAnswer[]> {
  const asked = useAsked<DisagreementAnswer[]>(`/cameras/${encodeURIComponent(camera.id)}/disagreements?limit=${limit}`, latest);
  const kept = useRef<DisagreementAnswer[] | null>(null);
  if (asked.value !== null) kept.current = asked.value;
  return { ...asked, value: asked.value ?? kept.current };
}

export function DisagreementsTab({ camera, latest }: Props) {
  const [limit, setLimit] = useState(FIRST);
  const asked = useDisagreements(camera, limit, latest);
  const models = useAsked<Model[]>(`/cameras/${encodeURIComponent(camera.id)}/models`, camera.state.model.version);
  const [kind, setKind] = useState<Kind | "all">("all");
  const [open, setOpen] = useState<number | null>(null);
  const [at, setAt] = useState(0);
  const all = asked.value;
  if (all === null) {
    return asked.error !== null ? (
      <ErrorBox what="The pictures could not be loaded" error={asked.error} onRetry={asked.again} />
    ) : (
      <Loading />
    );
  }
  if (all.length === 0) {
    return (
      <Empty title="No disagreements to show">
        The teacher labels a sample of pictures of each window. Where it and the camera's model differ, the picture is shown here
        once the window is over, for as long as recordings are kept.
      </Empty>
    );
  }
  const shown = all.filter((d) => kind === "all" || d.kinds.includes(kind));
  const choose = (to: Kind | "all"): void => {
    setKind(to);
    setAt(0);
  };
  return (
    <section aria-labelledby="disagreements-title">
      <div class="card-head">
        <h2 id="disagreements-title">Where the teacher disagrees</h2>
        <KindChoice all={all} kind={kind} onChange={choose} />
      </div>
      <BoxLegend />
      {shown.length === 0 && <p class="quiet">No picture of this kind.</p>}
      <Pictures camera={camera} shown={shown} at={Math.min(at, Math.max(0, shown.length - 1))} onAt={setAt} onOpen={setOpen} />
      {all.length === limit && limit < MOST && (
        <div class="actions">
          <button type="button" onClick={() => setLimit(MOST)}>
            Show older ones
          </button>
        </div>
      )}
      {open !== null && shown[open] && (
        <Enlarged camera={camera} models={models.value ?? []} all={shown} at={open} onMove={(to) => { setOpen(to); setAt(to); }} onClose={() => setOpen(null)} />
      )}
    </section>
  );
}

function KindChoice({ all, kind, onChange }: { all: DisagreementAnswer[]; kind: Kind | "all"; onChange: (kind: Kind | "all") => void }) {
  return (
    <Choice
      label="Show"
      value={kind}
      options={[
        ["all", `All (${all.length})`],
        ...(Object.keys(KINDS) as Kind[]).map((k) => [k, `${KINDS[k]} (${all.filter((d) => d.kinds.includes(k)).length})`] as const),
      ]}
      onChange={onChange}
    />
  );
}

interface PicturesProps {
  camera: Camera;
  shown: DisagreementAnswer[];
  /** The one that the tab key stops at. */
  at: number;
  onAt: (n: number) => void;
  onOpen: (n: number) => void;
}

/** One stop for the tab key; the arrows walk the pictures, by rows too. */
function Pictures({ camera, shown, at, onAt, onOpen }: PicturesProps) {
  const list = useRef<HTMLUListElement>(null);
  const walk = (event: KeyboardEvent): void => {
    const buttons = [...(list.current?.querySelectorAll<HTMLButtonElement>("button") ?? [])];
    const top = buttons[0]?.getBoundingClientRect().top;
    const perRow = Math.max(1, buttons.filter((b) => b.getBoundingClientRect().top === top).length);
    const from = Math.max(0, buttons.indexOf(document.activeElement as HTMLButtonElement));
    const to = { ArrowRight: from + 1, ArrowLeft: from - 1, ArrowDown: from + perRow, ArrowUp: from - perRow, Home: 0, End: shown.length - 1 }[
      event.key
    ];
    if (to === undefined || to < 0 || to >= shown.length) return;
    event.preventDefault();
    onAt(to);
    buttons[to]?.focus();
  };
  return (
    <ul class="disagreements" ref={list} onKeyDown={walk}>
      {shown.map((d, n) => (
        <li key={`${d.window}-${d.frame}`}>
          <button
            type="button"
            tabIndex={n === at ? 0 : -1}
            onFocus={() => onAt(n)}
            onClick={() => onOpen(n)}
          >
            <span class="hidden">Enlarge: </span>
            <span class="picture" style={{ aspectRatio: `${d.width} / ${d.height}` }}>
              <img src={source(camera.id, d)} alt="" loading="lazy" width={d.width} height={d.height} />
              <Overlay found={d} student teacher agreed={false} />
            </span>
            <span class="said">
              {inWords(d).map((line) => (
                <span key={line}>{line}</span>
              ))}
              <span class="quiet">
                {moment(d.utc_s)}, window {d.window}
              </span>
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** The boxes that are drawn. */
interface Sides {
  student: boolean;
  teacher: boolean;
  /** Also where both agree. */
  agreed: boolean;
}

interface OverlayProps extends Sides {
  found: DisagreementAnswer;
  names?: boolean;
}

/** The student's name above its box, the teacher's below, inside the picture. */
function namePlace(side: string, [left, top, right, bottom]: JudgedObject["box"]): Record<string, string> {
  const across = left > 0.7 ? { right: `${100 * (1 - right)}%` } : { left: `${100 * left}%` };
  if (side === "student") return { ...across, ...(top > 0.08 ? { bottom: `${100 * (1 - top)}%` } : { top: "0" }) };
  return { ...across, ...(bottom < 0.92 ? { top: `${100 * bottom}%` } : { bottom: "0" }) };
}

function Overlay({ found, student, teacher, agreed, names = false }: OverlayProps) {
  const shown = (o: JudgedObject): boolean => agreed || !["right", "unjudged"].includes(o.verdict);
  const sides = [
    { side: "teacher", objects: teacher ? found.teacher.filter(shown) : [] },
    { side: "student", objects: student ? found.student.filter(shown) : [] },
  ];
  return (
    <>
      <svg class="boxes" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
        {sides.flatMap(({ side, objects }) =>
          objects.map((o, n) => <DrawnBox key={`${side}-${n}`} box={o.box} of={side} />),
        )}
      </svg>
      {names &&
        sides.flatMap(({ side, objects }) =>
          objects.map((o, n) => (
            <span
              key={`${side}-${n}`}
              class={`box-name ${side}`}
              aria-hidden="true"
              style={namePlace(side, o.box)}
            >
              {o.class}
            </span>
          )),
        )}
    </>
  );
}

interface EnlargedProps {
  camera: Camera;
  /** Versions that are known; of one that is not its id is shown. */
  models: Model[];
  all: DisagreementAnswer[];
  at: number;
  onMove: (to: number) => void;
  onClose: () => void;
}

function Enlarged({ camera, models, all, at, onMove, onClose }: EnlargedProps) {
  const [sides, setSides] = useState<Sides>({ student: true, teacher: true, agreed: false });
  const d = all[at];
  useEffect(() => {
    const walk = (event: KeyboardEvent): void => {
      if (event.target instanceof HTMLInputElement) return;
      if (event.key === "ArrowRight" && at + 1 < all.length) onMove(at + 1);
      if (event.key === "ArrowLeft" && at > 0) onMove(at - 1);
    };
    addEventListener("keydown", walk);
    return () => removeEventListener("keydown", walk);
  }, [at, all.length]);
  if (d === undefined) return null;
  return (
    <Dialog title={`${camera.name}, ${moment(d.utc_s)}`} onClose={onClose} wide>
      <div class="enlarged">
        <div class="picture" style={{ aspectRatio: `${d.width} / ${d.height}`, width: `min(100%, calc(62vh * ${d.width / d.height}))` }}>
          <img src={source(camera.id, d)} alt={`${camera.name} at ${moment(d.utc_s)}`} width={d.width} height={d.height} />
          <Overlay found={d} {...sides} names />
        </div>
        <About found={d} models={models} />
        <Switches sides={sides} onChange={(part) => setSides((before) => ({ ...before, ...part }))} />
        <details>
          <summary>Every object in words</summary>
          <div class="two">
            <Objects title="The model" found={d.student} />
            <Objects title="The teacher" found={d.teacher} />
          </div>
        </details>
        <div class="actions end">
          <span class="quiet">
            {at + 1} of {all.length}
          </span>
          <button type="button" disabled={at === 0} onClick={() => onMove(at - 1)}>
            ← Newer
          </button>
          <button type="button" disabled={at + 1 >= all.length} onClick={() => onMove(at + 1)}>
            Older →
          </button>
        </div>
      </div>
    </Dialog>
  );
}

/** The difference in words, and the model that answered. */
function About({ found: d, models }: { found: DisagreementAnswer; models: Model[] }) {
  const model = models.find((m) => m.id === d.model_version) ?? { id: d.model_version, origin: null, window: null };
  return (
    <div class="enlarged-about" aria-live="polite">
      {inWords(d).map((line) => (
        <p key={line}>
          <strong>{line}</strong>
        </p>
      ))}
      <p class="quiet">
        Window {d.window}, model {shortVersion(model)}
        {d.answer_age_s > 0.05 && `, its answer was ${d.answer_age_s.toFixed(1)} s old`}
      </p>
    </div>
  );
}

function Switches({ sides, onChange }: { sides: Sides; onChange: (part: Partial<Sides>) => void }) {
  return (
    <fieldset class="switches">
      <legend class="hidden">Boxes</legend>
      <label class="check">
        <input type="checkbox" checked={sides.student} onChange={(e) => onChange({ student: e.currentTarget.checked })} />
        <span class="box-key student" aria-hidden="true" /> What the model said
      </label>
      <label class="check">
        <input type="checkbox" checked={sides.teacher} onChange={(e) => onChange({ teacher: e.currentTarget.checked })} />
        <span class="box-key teacher" aria-hidden="true" /> What the teacher said
      </label>
      <label class="check">
        <input type="checkbox" checked={sides.agreed} onChange={(e) => onChange({ agreed: e.currentTarget.checked })} />
        Also where they agree
      </label>
    </fieldset>
  );
}

const VERDICTS: Record<Verdict, string> = {
  right: "both agree",
  extra: "the teacher does not see it",
  missed: "the model does not see it",
  class: "called differently",
  unjudged: "not judged",
};

function Objects({ title, found }: { title: string; found: JudgedObject[] }) {
  return (
    <div>
      <h3>{title}</h3>
      {found.length === 0 && <p class="quiet">Nothing.</p>}
      <ul>
        {found.map((o, n) => (
          <li key={n}>
            {o.class} <span class="quiet">({percent(o.score)}): {VERDICTS[o.verdict]}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
