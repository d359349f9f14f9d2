/** Setting a password: the fields, the rule that they show, and what is wrong with what was typed. */

import type { Problem } from "../api";
import { TextField } from "./form";

export const PASSWORD_RULE = "At least 10 characters.";

/** Whether the new password may be sent: something was typed, and both times the same. The appliance checks the rule. */
export function typedTwice(next: string, again: string): boolean {
  return next !== "" && next === again;
}

interface Props {
  /** "Password" or "New password". */
  label: string;
  /** The field's name in what is sent. */
  path: string;
  value: string;
  onChange: (to: string) => void;
  problems: Problem[];
  hint?: string;
  required?: boolean;
}

/** A password that a user sets, for themselves or for another user. */
export function NewPassword({ label, path, value, onChange, problems, hint, required = true }: Props) {
  return (
    <TextField
      label={label}
      path={path}
      problems={problems}
      value={value}
      onChange={onChange}
      hint={hint ?? `${PASSWORD_RULE} A few words are easier to remember than signs.`}
      input={{ type: "password", autocomplete: "new-password", required }}
    />
  );
}

interface TwiceProps extends Props {
  again: string;
  onAgain: (to: string) => void;
}

/** One's own new password, typed twice. */
export function NewPasswordTwice({ again, onAgain, ...first }: TwiceProps) {
  const differs = again !== "" && again !== first.value;
  return (
    <>
      <NewPassword {...first} />
      <TextField
        label={`${first.label} once more`}
        path="again"
        problems={differs ? [{ path: "again", given: "", allowed: "the same password as above" }] : []}
        value={again}
        onChange={onAgain}
        input={{ type: "password", autocomplete: "new-password", required: true }}
      />
    </>
  );
}
