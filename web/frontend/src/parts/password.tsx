/** Changing one's own password. */

import { useEffect } from "preact/hooks";

import type { Me } from "../api";
import { ask } from "../api";
import { Dialog } from "./dialog";
import { FormProblems, TextField } from "./form";
import { NewPasswordTwice, typedTwice } from "./new_password";
import { useForm } from "./schema_form";
import { toast } from "./toasts";

const EMPTY = { current: "", new: "", again: "" };

interface FormProps {
  me: Me;
  /** The password is the new one. */
  onDone: () => void;
  /** The words and the action of the other button. */
  instead: string;
  onInstead: () => void;
}

export function PasswordDialog({ me, onClose }: { me: Me; onClose: () => void }) {
  return (
    <Dialog title="Change password" onClose={onClose}>
      <PasswordForm me={me} onDone={onClose} instead="Cancel" onInstead={onClose} />
    </Dialog>
  );
}

export function PasswordForm({ me, onDone, instead, onInstead }: FormProps) {
  const form = useForm(null, EMPTY);
  const { current, new: next, again } = form.draft as typeof EMPTY;
  const { problems } = form;

  useEffect(() => {
    form.place.current?.querySelector<HTMLElement>("input:not(.hidden)")?.focus();
  }, []);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const done = await form.save(async () => {
      await ask("/me/password", "POST", { current, new: next });
      return true;
    });
    if (!done) return;
    toast("Password changed");
    onDone();
  };

  return (
    <form ref={form.place} class="stacked" onSubmit={(event) => void submit(event)}>
      <input class="hidden" type="text" name="username" autocomplete="username" value={me.name} readOnly tabIndex={-1} aria-hidden="true" />
      <TextField
        label="Current password"
        path="current"
        problems={problems}
        value={current}
        onChange={(to) => form.change("current", to)}
        input={{ type: "password", autocomplete: "current-password", required: true }}
      />
      <NewPasswordTwice
        label="New password"
        path="new"
        value={next}
        onChange={(to) => form.change("new", to)}
        problems={problems}
        again={again}
        onAgain={(to) => form.change("again", to)}
      />
      <FormProblems problems={problems} fields={["current", "new"]} failure={form.failure} />
      <div class="actions end">
        <button type="button" onClick={onInstead}>
          {instead}
        </button>
        <button type="submit" class="primary" disabled={form.busy || !typedTwice(next, again)}>
          {form.busy ? "Changing…" : "Change password"}
        </button>
      </div>
    </form>
  );
}
