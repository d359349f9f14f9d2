/** Changing one's own password. */

import type { Me } from "../api";
import { ask } from "../api";
import { Dialog } from "./dialog";
import { FormProblems, TextField } from "./form";
import { useForm } from "./schema_form";
import { toast } from "./toasts";

const EMPTY = { current: "", new: "", again: "" };

interface Props {
  me: Me;
  /** The appliance insists (a password that somebody else chose). */
  must?: boolean;
  onClose: () => void;
}

export function PasswordDialog({ me, must = false, onClose }: Props) {
  const form = useForm(null, EMPTY);
  const { current, new: next, again } = form.draft as typeof EMPTY;
  const { problems } = form;

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const done = await form.save(async () => {
      await ask("/me/password", "POST", { current, new: next });
      return true;
    });
    if (!done) return;
    toast("Password changed");
    onClose();
  };

  const mismatch = again !== "" && next !== again ? [{ path: "again", given: "", allowed: "the same password as above" }] : [];
  return (
    <Dialog title="Change password" onClose={onClose}>
      {must && <p>This password was chosen by somebody else. Please choose your own.</p>}
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
        <TextField
          label="New password"
          path="new"
          problems={problems}
          value={next}
          onChange={(to) => form.change("new", to)}
          hint="At least 10 characters. A few words are easier to remember than signs."
          input={{ type: "password", autocomplete: "new-password", required: true }}
        />
        <TextField
          label="New password once more"
          path="again"
          problems={mismatch}
          value={again}
          onChange={(to) => form.change("again", to)}
          input={{ type: "password", autocomplete: "new-password", required: true }}
        />
        <FormProblems problems={problems} fields={["current", "new"]} failure={form.failure} />
        <div class="actions end">
          <button type="button" onClick={onClose}>
            {must ? "Later" : "Cancel"}
          </button>
          <button type="submit" class="primary" disabled={form.busy || next === "" || next !== again}>
            {form.busy ? "Changing…" : "Change password"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
