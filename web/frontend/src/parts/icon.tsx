/** The page's own drawings, so that nothing is loaded from elsewhere. Decorative: words stand beside each. */

import type { ComponentChildren } from "preact";

const DRAWN: Record<string, ComponentChildren> = {
  good: <path d="M3.5 8.5 L6.7 11.5 L12.5 4.8" />,
  wait: (
    <>
      <path d="M8 2.2 L14.3 13.4 H1.7 Z" />
      <path d="M8 6.4 V9.4 M8 11.4 V11.6" />
    </>
  ),
  bad: (
    <>
      <circle cx="8" cy="8" r="6.2" />
      <path d="M8 4.6 V8.8 M8 11.2 V11.4" />
    </>
  ),
  off: <path d="M4 8 H12" />,
  info: (
    <>
      <circle cx="8" cy="8" r="6.2" />
      <path d="M8 7.2 V11.4 M8 4.7 V4.9" />
    </>
  ),
  wall: (
    <>
      <rect x="1.8" y="2.8" width="5.4" height="4.4" rx="1" />
      <rect x="8.8" y="2.8" width="5.4" height="4.4" rx="1" />
      <rect x="1.8" y="8.8" width="5.4" height="4.4" rx="1" />
      <rect x="8.8" y="8.8" width="5.4" height="4.4" rx="1" />
    </>
  ),
  find: (
    <>
      <circle cx="6.8" cy="6.8" r="4.6" />
      <path d="M10.2 10.2 L14.2 14.2" />
    </>
  ),
  counts: <path d="M3.4 2.5 V13.5 M6.5 2.5 V13.5 M9.6 2.5 V13.5 M12.7 2.5 V13.5 M1.6 11 L14.4 5" />,
  windows: <path d="M2 13.5 V2.5 M2 13.5 H14 M4.6 10.6 L7.4 7 L9.8 8.8 L13.4 4" />,
  serving: <path d="M2 4 H14 M2 8 H14 M2 12 H14 M5 2.6 V5.4 M10.6 6.6 V9.4 M7.4 10.6 V13.4" />,
  tenants: <path d="M8 8 V1.8 A6.2 6.2 0 0 1 13.9 9.9 Z M8 8 L13.9 9.9 A6.2 6.2 0 1 1 8 1.8" />,
  fleet: (
    <>
      <rect x="5.6" y="1.8" width="4.8" height="3.8" rx="0.8" />
      <rect x="1.6" y="10.4" width="4.8" height="3.8" rx="0.8" />
      <rect x="9.6" y="10.4" width="4.8" height="3.8" rx="0.8" />
      <path d="M8 5.6 V8 M4 10.4 V8 H12 V10.4" />
    </>
  ),
  system: (
    <>
      <rect x="4" y="4" width="8" height="8" rx="1.2" />
      <path d="M6 1.6 V4 M10 1.6 V4 M6 12 V14.4 M10 12 V14.4 M1.6 6 H4 M1.6 10 H4 M12 6 H14.4 M12 10 H14.4" />
    </>
  ),
  settings: (
    <>
      <circle cx="8" cy="8" r="2.2" />
      <path d="M8 1.6 V4 M8 12 V14.4 M1.6 8 H4 M12 8 H14.4 M3.5 3.5 L5.2 5.2 M10.8 10.8 L12.5 12.5 M12.5 3.5 L10.8 5.2 M5.2 10.8 L3.5 12.5" />
    </>
  ),
  user: (
    <>
      <circle cx="8" cy="5.4" r="2.9" />
      <path d="M2.6 14 C2.6 10.6 5 9.6 8 9.6 C11 9.6 13.4 10.6 13.4 14" />
    </>
  ),
  close: <path d="M4 4 L12 12 M12 4 L4 12" />,
  down: <path d="M4 6.2 L8 10.2 L12 6.2" />,
  pin: <path d="M8 9.6 V14.4 M4.4 9.6 H11.6 L10.4 6.6 V2.4 H5.6 V6.6 Z" />,
  bell: <path d="M3 11.6 H13 L11.8 9.8 V6.6 A3.8 3.8 0 0 0 4.2 6.6 V9.8 Z M6.8 13.6 H9.2" />,
};

export type IconName = keyof typeof DRAWN;

export function Icon({ name, size = 16 }: { name: string; size?: number }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true" focusable="false">
      {DRAWN[name] ?? DRAWN["info"]}
    </svg>
  );
}
