/** Points and stretches of time on one line. One stop for the Tab key; the arrow keys walk along, Enter opens. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

export interface LaneItem {
  key: string | number;
  from_s: number;
  to_s: number;
  /** Its name, in words. */
  words: string;
  tone: string;
  /** Its content. */
  inside?: ComponentChildren;
  /** null: it leads nowhere; its words are all. */
  onOpen: (() => void) | null;
}

interface Props {
  title: string;
  items: LaneItem[];
  from_s: number;
  to_s: number;
  now_s: number;
  tall?: boolean;
  /** Gets the item that is pointed at. */
  onPoint: (words: string) => void;
}

export function Lane({ title, items, from_s, to_s, now_s, tall = false, onPoint }: Props) {
  const list = useRef<HTMLUListElement>(null);
  const [at, setAt] = useState(0);
  const length = to_s - from_s;
  const part = (s: number): number => (100 * (Math.min(to_s, Math.max(from_s, s)) - from_s)) / length;
  const stop = Math.min(at, items.length - 1);
  const walk = (event: KeyboardEvent): void => {
    const to = { ArrowRight: stop + 1, ArrowLeft: stop - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to === undefined || items.length === 0) return;
    event.preventDefault();
    const next = Math.min(items.length - 1, Math.max(0, to));
    setAt(next);
    list.current?.querySelectorAll("button")[next]?.focus();
  };
  return (
    <>
      <h3>{title}</h3>
      <ul class={tall ? "lane tall" : "lane"} ref={list} aria-label={`${title}: ${items.length === 0 ? "none" : items.length}`} onKeyDown={walk}>
        {items.map((item, n) => (
          <li key={item.key}>
            <button
              type="button"
              class={item.tone}
              style={{ left: `${part(item.from_s)}%`, width: `${part(item.to_s) - part(item.from_s)}%` }}
              tabIndex={n === stop ? 0 : -1}
              title={item.words}
              aria-label={item.words}
              onFocus={() => {
                setAt(n);
                onPoint(item.words);
              }}
              onPointerEnter={() => onPoint(item.words)}
              aria-disabled={item.onOpen === null}
              onClick={() => item.onOpen?.()}
            >
              {item.inside}
            </button>
          </li>
        ))}
        {now_s < to_s && <li class="none" aria-hidden="true"><span class="later" style={{ left: `${part(now_s)}%` }} /></li>}
      </ul>
    </>
  );
}
