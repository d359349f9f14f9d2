/** A state in words, with a drawing and a colour: never by colour alone. */

import type { ComponentChildren } from "preact";

import { Icon } from "./icon";

export type Tone = "good" | "wait" | "bad" | "off" | "info";

export function Badge({ tone, children, title }: { tone: Tone; children: ComponentChildren; title?: string }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      <Icon name={tone} size={13} />
      {children}
    </span>
  );
}
