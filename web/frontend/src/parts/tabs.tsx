/** Tabs: the arrow keys walk, Home and End jump. */

import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";

export interface Tab {
  id: string;
  title: string;
}

interface Props {
  label: string;
  tabs: Tab[];
  chosen: string;
  onChoose: (id: string) => void;
  /** The content of the chosen tab. */
  children: ComponentChildren;
}

export function Tabs({ label, tabs, chosen, onChoose, children }: Props) {
  const base = useId();
  const list = useRef<HTMLDivElement>(null);
  const at = Math.max(
    0,
    tabs.findIndex((t) => t.id === chosen),
  );
  const walk = (event: KeyboardEvent): void => {
    const buttons = [...(list.current?.querySelectorAll<HTMLButtonElement>("[role=tab]") ?? [])];
    // From where the focus is: the chosen tab may be a moment behind quick fingers.
    const from = Math.max(0, buttons.indexOf(document.activeElement as HTMLButtonElement));
    const to = {
      ArrowRight: (from + 1) % tabs.length,
      ArrowLeft: (from - 1 + tabs.length) % tabs.length,
      Home: 0,
      End: tabs.length - 1,
    }[event.key];
    const tab = to === undefined ? undefined : tabs[to];
    if (tab === undefined || to === undefined) return;
    event.preventDefault();
    onChoose(tab.id);
    buttons[to]?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={walk}>
        {tabs.map((tab, n) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${base}-${tab.id}`}
            aria-selected={n === at}
            aria-controls={`${base}-panel`}
            tabIndex={n === at ? 0 : -1}
            onClick={() => onChoose(tab.id)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      <div class="tab-panel" role="tabpanel" id={`${base}-panel`} aria-labelledby={`${base}-${tabs[at]?.id ?? ""}`} tabIndex={0}>
        {children}
      </div>
    </>
  );
}
