/** Users: who may log in, what they may do, and which cameras they see. */

import { useState } from "preact/hooks";

import type { Camera, Problem, Role } from "../api";
import { ask, problemsOf, words } from "../api";
import { moment } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm, Dialog } from "../parts/dialog";
import { FormProblems, SelectField, SwitchField, TextField } from "../parts/form";
import { Choices } from "../parts/schema_form";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { toast } from "../parts/toasts";
import type { SectionProps } from "./settings";

interface User {
  name: string;
  role: Role;
  cameras: string[] | null;
  disabled: boolean;
  created_utc_s: number;
  last_login_utc_s: number | null;
}

export const ROLE_WORDS: Record<Role, string> = {
  viewer: "Viewer: sees everything, changes nothing",
  operator: "Operator: runs it day by day – models, rules, retraining, alarms",
  admin: "Administrator: cameras, users, outputs, secrets, too",
};
const ROLES: Role[] = ["viewer", "operator", "admin"];

export function UsersSection({ known, me }: SectionProps) {
  const { value, error, again } = useAsked<User[]>("/users");
  const [editing, setEditing] = useState<User | "new" | null>(null);
  const [deleting, setDeleting] = useState<User | null>(null);
  const cameras = known.overview?.cameras ?? [];
  const named = (id: string): string => cameras.find((c) => c.id === id)?.name ?? id;
  return (
    <section class="card" aria-labelledby="users-title">
      <div class="card-head">
        <h2 id="users-title">Users</h2>
        {value !== null && (
          <button type="button" class="primary" onClick={() => setEditing("new")}>
            Add a user
          </button>
        )}
      </div>
      {error !== null && <ErrorBox what="The users could not be asked" error={error} onRetry={again} />}
      {value === null && error === null && <Loading />}
      {value !== null && (
        <Table
          caption="Users"
          rows={value}
          rowKey={(u) => u.name}
          empty="No user: this appliance asks nobody to log in."
          columns={[
            {
              key: "name",
              title: "Name",
              cell: (u) => (
                <>
                  {u.name}
                  {u.name === me.name && <span class="quiet"> (you)</span>}
                </>
              ),
            },
            { key: "role", title: "Role", cell: (u) => ROLE_WORDS[u.role]?.split(":")[0] ?? u.role },
            { key: "cameras", title: "Cameras", cell: (u) => (u.cameras === null ? "all" : u.cameras.map(named).join(", ") || "none") },
            { key: "state", title: "State", cell: (u) => (u.disabled ? <Badge tone="off">Disabled</Badge> : <Badge tone="good">May log in</Badge>) },
            { key: "last", title: "Last login", cell: (u) => (u.last_login_utc_s === null ? <span class="quiet">never</span> : moment(u.last_login_utc_s)) },
            {
              key: "actions",
              title: "Actions",
              cell: (u) => (
                <span class="row-actions">
                  <button type="button" aria-label={`Change ${u.name}`} onClick={() => setEditing(u)}>
                    Change
                  </button>
                  {u.name !== me.name && (
                    <button type="button" aria-label={`Delete ${u.name}`} onClick={() => setDeleting(u)}>
                      Delete
                    </button>
                  )}
                </span>
              ),
            },
          ]}
        />
      )}
      {editing !== null && (
        <UserDialog
          user={editing === "new" ? null : editing}
          self={editing !== "new" && editing.name === me.name}
          cameras={cameras}
          onClose={() => setEditing(null)}
          onSaved={() => {
            setEditing(null);
            again();
          }}
        />
      )}
      {deleting && (
        <Confirm
          title={`Delete the user ${deleting.name}?`}
          action="Delete"
          danger
          onClose={() => setDeleting(null)}
          onConfirm={async () => {
            await ask(`/users/${encodeURIComponent(deleting.name)}`, "DELETE");
            toast(`User ${deleting.name} deleted`);
            again();
          }}
        >
          <p>
            {deleting.name} is logged out everywhere, and the API tokens of this user stop working. This cannot be undone; disabling can.
          </p>
        </Confirm>
      )}
    </section>
  );
}

interface DialogProps {
  user: User | null;
  self: boolean;
  cameras: Camera[];
  onClose: () => void;
  onSaved: () => void;
}

function UserDialog({ user, self, cameras, onClose, onSaved }: DialogProps) {
  const [name, setName] = useState(user?.name ?? "");
  const [role, setRole] = useState<Role>(user?.role ?? "viewer");
  const [some, setSome] = useState(user !== null && user.cameras !== null);
  const [chosen, setChosen] = useState<string[]>(user?.cameras ?? []);
  const [password, setPassword] = useState("");
  const [disabled, setDisabled] = useState(user?.disabled ?? false);
  const [problems, setProblems] = useState<Problem[]>([]);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblems([]);
    setFailure("");
    const limit = some ? chosen : null;
    try {
      if (user === null) await ask("/users", "POST", { name: name.trim(), role, cameras: limit, password });
      else {
        const patch: Record<string, unknown> = {};
        if (role !== user.role) patch["role"] = role;
        if (JSON.stringify(limit) !== JSON.stringify(user.cameras)) patch["cameras"] = limit;
        if (disabled !== user.disabled) patch["disabled"] = disabled;
        if (password !== "") patch["password"] = password;
        await ask(`/users/${encodeURIComponent(user.name)}`, "PATCH", patch);
      }
      toast(user === null ? `User ${name.trim()} added` : `User ${user.name} changed`);
      onSaved();
    } catch (error) {
      setProblems(problemsOf(error));
      if (problemsOf(error).length === 0) setFailure(words(error));
      setBusy(false);
    }
  };

  return (
    <Dialog title={user === null ? "Add a user" : `Change the user ${user.name}`} onClose={onClose}>
      <form class="stacked" onSubmit={(e) => void submit(e)}>
        {user === null && (
          <TextField
            label="Name"
            path="name"
            problems={problems}
            value={name}
            onChange={setName}
            input={{ autocomplete: "off", autocapitalize: "none", spellcheck: false, required: true, maxLength: 63 }}
          />
        )}
        <SelectField
          label="Role"
          path="role"
          problems={problems}
          value={role}
          disabled={self}
          {...(self ? { hint: "One's own role is changed by another administrator." } : {})}
          options={ROLES.map((r) => ({ value: r, label: ROLE_WORDS[r] }))}
          onChange={(r) => setRole(r as Role)}
        />
        <SwitchField
          label="Only some cameras"
          path="some"
          problems={[]}
          value={some}
          disabled={self}
          hint="Others are as if they were not there. What concerns every camera is then not offered."
          onChange={setSome}
        />
        {some && (
          <Choices
            label="Cameras"
            path="cameras"
            problems={problems}
            options={cameras.map((c) => ({ value: c.id, label: c.name }))}
            value={chosen}
            disabled={self}
            onChange={setChosen}
          />
        )}
        {!self && (
          <TextField
            label={user === null ? "Password" : "New password"}
            path="password"
            problems={problems}
            value={password}
            onChange={setPassword}
            hint={user === null ? "At least 10 characters. The user is asked to choose another at the first login." : "Empty: it stays. A new one logs the user out everywhere."}
            input={{ type: "password", autocomplete: "new-password", required: user === null }}
          />
        )}
        {user !== null && !self && (
          <SwitchField label="Disabled" path="disabled" problems={problems} value={disabled} hint="May not log in, and is logged out." onChange={setDisabled} />
        )}
        <FormProblems problems={problems} fields={["name", "role", "cameras", "password", "disabled"]} failure={failure} />
        <div class="actions end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy || (user === null && (name.trim() === "" || password === ""))}>
            {busy ? "Saving…" : "Save"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
