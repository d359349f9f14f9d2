/** A batch of questions about pictures: the answers given so far, and sending them together. */

import { useEffect, useState } from "preact/hooks";

import type { QuestionAnswer, QuestionsAnswer, TruthOfCamera } from "../answers";
import { ask, words } from "../api";

export type Box = QuestionAnswer["others"][number];
export type Verdict = "yes" | "no" | "student" | "teacher" | "counted" | "unsure";

/** A box that a user drew around a missed object. */
export interface Mark {
  box: Box;
  class: string;
}

export interface Given {
  verdict: Verdict;
  missed: number | null;
  marked: Mark[];
}

interface Progress {
  /** Number of the question that is shown. */
  at: number;
  /** The answers by the number of their question. */
  given: Record<number, Given>;
  /** Drawn for the question that is shown. */
  marks: Mark[];
}

export interface Batch extends Progress {
  /** Null until they come. */
  questions: QuestionAnswer[] | null;
  classes: string[];
  /** The question that is shown; none when all about the window were answered. */
  question: QuestionAnswer | undefined;
  answered: number;
  error: string;
  sending: boolean;
  move: (to: number) => void;
  answer: (verdict: Verdict, missed?: number | null) => void;
  mark: (mark: Mark) => void;
  undo: () => void;
  send: () => void;
}

const SIZE = 10;
const BEGINNING: Progress = { at: 0, given: {}, marks: [] };

function moved(progress: Progress, to: number): Progress {
  return { ...progress, at: to, marks: progress.given[to]?.marked ?? [] };
}

/** With the question that is shown answered; the next open one is shown then. */
function answeredOne(progress: Progress, all: QuestionAnswer[], verdict: Verdict, missed: number | null): Progress {
  const { at, given, marks } = progress;
  const kept = verdict === "counted" ? marks : [];
  const one: Given = { verdict, missed: missed === null ? null : Math.max(missed, kept.length), marked: kept };
  const next = { ...progress, given: { ...given, [at]: one } };
  const open = all.findIndex((_, n) => n > at && next.given[n] === undefined);
  if (open >= 0) return moved(next, open);
  return at + 1 < all.length ? moved(next, at + 1) : next;
}

/** Without the last mark; where there is none, without the last answer. */
function undone(progress: Progress): Progress {
  const { at, given, marks } = progress;
  if (marks.length > 0 && given[at] === undefined) return { ...progress, marks: marks.slice(0, -1) };
  const last = given[at] !== undefined ? at : at - 1;
  if (last < 0) return progress;
  const { [last]: _, ...rest } = given;
  return { at: last, given: rest, marks: [] };
}

/** The answers as they are sent. */
function toSend(all: QuestionAnswer[], given: Progress["given"]): object[] {
  return Object.entries(given).map(([n, g]) => {
    const { window, frame, kind, candidate } = all[Number(n)]!;
    const about = { window, frame, kind, candidate, verdict: g.verdict };
    return g.verdict === "counted" ? { ...about, missed: g.missed, marked: g.marked } : about;
  });
}

/** `path`: of the camera's truth. `second`: questions that others have answered. `onAnswered` gets the truth when answers were sent; then there is another batch. */
export function useBatch(path: string, second: boolean, onAnswered: (truth: TruthOfCamera) => void): Batch {
  const [round, setRound] = useState(0);
  const [asked, setAsked] = useState<QuestionsAnswer | null>(null);
  const [error, setError] = useState("");
  const [progress, setProgress] = useState(BEGINNING);
  const [sending, setSending] = useState(false);

  useEffect(() => {
    let wanted = true;
    void ask<QuestionsAnswer>(`${path}/questions?limit=${SIZE}${second ? "&second=true" : ""}`)
      .then((found) => {
        if (!wanted) return;
        setAsked(found);
        setProgress(BEGINNING);
        setError("");
      })
      .catch((failure: unknown) => wanted && setError(words(failure)));
    return () => {
      wanted = false;
    };
  }, [path, second, round]);

  const all = asked?.questions ?? [];
  const question = all[progress.at];
  const answered = Object.keys(progress.given).length;
  const send = async (): Promise<void> => {
    if (answered === 0 || sending) return;
    setSending(true);
    const answers = toSend(all, progress.given);
    try {
      onAnswered(await ask<TruthOfCamera>(`${path}/answers`, "POST", { answers }));
      setRound(round + 1);
    } catch (failure) {
      setError(words(failure));
    }
    setSending(false);
  };
  return {
    ...progress,
    questions: asked?.questions ?? null,
    classes: asked?.classes ?? [],
    question,
    answered,
    error,
    sending,
    move: (to) => {
      if (to >= 0 && to < all.length) setProgress((now) => moved(now, to));
    },
    answer: (verdict, missed = null) => {
      if (question !== undefined && !sending) setProgress((now) => answeredOne(now, all, verdict, missed));
    },
    mark: (drawn) => setProgress((now) => ({ ...now, marks: [...now.marks, drawn] })),
    undo: () => setProgress(undone),
    send: () => void send(),
  };
}
