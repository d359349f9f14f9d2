/** Dialogs: the browser's own modal keeps the focus inside, Escape closes, the focus goes back to where it was. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import { words } from "../api";
import { Icon } from "./icon";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}

export function Dialog({ title, onClose, children, wide = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    const shown = dialog.current;
    shown?.showModal();
    // The purpose of the dialog, not the cross that closes it.
    shown?.querySelector<HTMLElement>("form input:not(.hidden, [type=checkbox]), form select, form textarea")?.focus();
    return () => {
      shown?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="bare" onClick={onClose} aria-label="Close">
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  /** The effect, and whether it can be undone. */
  children: ComponentChildren;
  /** The word on the button: "Roll back". */
  action: string;
  danger?: boolean;
  /** Ask for a reason under this label; it is handed to `onConfirm`. */
  reason?: string;
  onConfirm: (reason: string) => Promise<unknown>;
  onClose: () => void;
}

/** Asks before something is done; stays open and says why when it failed. */
export function Confirm({ title, children, action, danger = false, reason, onConfirm, onClose }: ConfirmProps) {
  const [given, setGiven] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const id = useId();
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    event.stopPropagation(); // a form around the dialog is not sent with it
    setBusy(true);
    setFailure("");
    try {
      await onConfirm(given.trim());
      onClose();
    } catch (error) {
      setFailure(words(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="confirm" onSubmit={(event) => void submit(event)}>
        <div class="confirm-text">{children}</div>
        {reason !== undefined && (
          <>
            <label for={id}>{reason}</label>
            <input id={id} type="text" maxLength={500} value={given} onInput={(e) => setGiven(e.currentTarget.value)} />
          </>
        )}
        {failure && (
          <p class="problem" role="alert">
            {failure}
          </p>
        )}
        <div class="actions end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class={danger ? "danger" : "primary"} disabled={busy}>
            {busy ? "One moment…" : action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
