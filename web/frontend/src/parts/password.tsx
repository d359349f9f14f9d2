/** Changing one's own password. */

import { useState } from "preact/hooks";

import type { Me, Problem } from "../api";
import { ask, problemsOf, words } from "../api";
import { Dialog } from "./dialog";
import { FormProblems, TextField } from "./form";
import { toast } from "./toasts";

interface Props {
  me: Me;
  /** The appliance insists (a password that somebody else chose). */
  must?: boolean;
  onClose: () => void;
}

export function PasswordDialog({ me, must = false, onClose }: Props) {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [again, setAgain] = useState("");
  const [problems, setProblems] = useState<Problem[]>([]);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  const differ = again !== "" && next !== again;

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure("");
    setProblems([]);
    try {
      await ask("/me/password", "POST", { current, new: next });
      toast("Password changed");
      onClose();
    } catch (error) {
      setProblems(problemsOf(error));
      if (problemsOf(error).length === 0) setFailure(words(error));
    } finally {
      setBusy(false);
    }
  };

  const mismatch = differ ? [{ path: "again", given: "", allowed: "the same password as above" }] : [];
  return (
    <Dialog title="Change password" onClose={onClose}>
      {must && <p>This password was chosen by somebody else. Please choose your own.</p>}
      <form class="stacked" onSubmit={(event) => void submit(event)}>
        <input class="hidden" type="text" name="username" autocomplete="username" value={me.name} readOnly tabIndex={-1} aria-hidden="true" />
        <TextField
          label="Current password"
          path="current"
          problems={problems}
          value={current}
          onChange={setCurrent}
          input={{ type: "password", autocomplete: "current-password", required: true }}
        />
        <TextField
          label="New password"
          path="new"
          problems={problems}
          value={next}
          onChange={setNext}
          hint="At least 10 characters. A few words are easier to remember than signs."
          input={{ type: "password", autocomplete: "new-password", required: true }}
        />
        <TextField
          label="New password once more"
          path="again"
          problems={mismatch}
          value={again}
          onChange={setAgain}
          input={{ type: "password", autocomplete: "new-password", required: true }}
        />
        <FormProblems problems={problems} fields={["current", "new"]} failure={failure} />
        <div class="actions end">
          <button type="button" onClick={onClose}>
            {must ? "Later" : "Cancel"}
          </button>
          <button type="submit" class="primary" disabled={busy || next === "" || next !== again}>
            {busy ? "Changing…" : "Change password"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
