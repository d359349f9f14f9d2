/** Short messages about what was just done. */

import { useEffect, useState } from "preact/hooks";

import { Icon } from "./icon";

type ToastTone = "good" | "bad" | "info";

interface Toast {
  number: number;
  text: string;
  tone: ToastTone;
}

const EVENT = "magpie-toast";
const SHOWN_MS = 6000;

/** Tell the person in a corner of the page that something was done: toast("Saved"). */
export function toast(text: string, tone: ToastTone = "good"): void {
  dispatchEvent(new CustomEvent(EVENT, { detail: { text, tone } }));
}

export function Toasts() {
  const [shown, setShown] = useState<Toast[]>([]);
  useEffect(() => {
    let number = 0;
    const take = (event: Event): void => {
      const { text, tone } = (event as CustomEvent<{ text: string; tone: ToastTone }>).detail;
      const mine = ++number;
      setShown((before) => [...before.slice(-3), { number: mine, text, tone }]);
      setTimeout(() => setShown((before) => before.filter((t) => t.number !== mine)), SHOWN_MS);
    };
    addEventListener(EVENT, take);
    return () => removeEventListener(EVENT, take);
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((t) => (
        <p key={t.number} class={`toast ${t.tone}`}>
          <Icon name={t.tone} />
          {t.text}
          <button
            type="button"
            class="bare"
            aria-label="Dismiss"
            onClick={() => setShown((before) => before.filter((o) => o.number !== t.number))}
          >
            <Icon name="close" />
          </button>
        </p>
      ))}
    </div>
  );
}
