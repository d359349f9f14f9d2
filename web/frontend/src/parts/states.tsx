/** The content of a page that has nothing to show yet, nothing at all, or an error. */

import type { ComponentChildren } from "preact";

import { words } from "../api";
import { Icon } from "./icon";

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <p class="state-loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {what}…
    </p>
  );
}

interface EmptyProps {
  title: string;
  children?: ComponentChildren;
  /** A link or button that leads on. */
  action?: ComponentChildren;
  level?: 1 | 2 | 3 | 4;
}

/** Nothing there: says what would be there, and how it gets there. */
export function Empty({ title, children, action, level = 3 }: EmptyProps) {
  const Heading = `h${level}` as "h3";
  return (
    <div class="state-empty">
      <Heading>{title}</Heading>
      {children && <div class="quiet">{children}</div>}
      {action && <div class="actions">{action}</div>}
    </div>
  );
}

interface ErrorProps {
  error: unknown;
  /** What did not work: "The models could not be loaded". */
  what: string;
  onRetry?: () => void;
}

export function ErrorBox({ error, what, onRetry }: ErrorProps) {
  return (
    <div class="state-error" role="alert">
      <Icon name="bad" size={18} />
      <p>
        <strong>{what}.</strong> {words(error)}
      </p>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}
