/** Users: who may log in, what they may do, and which cameras and tenants they see. */

import { useState } from "preact/hooks";

import type { UserAnswer } from "../answers";
import type { Camera, Me } from "../api";
import { ask } from "../api";
import { moment } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm, Dialog } from "../parts/dialog";
import { FormProblems, SelectField, SwitchField, TextField } from "../parts/form";
import { CamerasLimit, ROLES, ROLE_WORDS, TenantsLimit, limitWords, roleName } from "../parts/limits";
import { NewPassword, PASSWORD_RULE } from "../parts/new_password";
import type { Form, Json } from "../parts/schema_form";
import { useForm } from "../parts/schema_form";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import type { Tenant, TenantsAnswer } from "../parts/tenants";
import { tenantName } from "../parts/tenants";
import { toast } from "../parts/toasts";
import type { SectionProps } from "./page";

export function UsersSection({ known, me }: SectionProps) {
  const { value, error, again } = useAsked<UserAnswer[]>("/users");
  const [editing, setEditing] = useState<UserAnswer | "new" | null>(null);
  const [deleting, setDeleting] = useState<UserAnswer | null>(null);
  const cameras = known.overview?.cameras ?? [];
  const tenants = useAsked<TenantsAnswer>("/tenants").value?.tenants ?? [];
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
      {error !== null && <ErrorBox what="The users could not be loaded" error={error} onRetry={again} />}
      {value === null && error === null && <Loading />}
      {value !== null && <UsersTable users={value} me={me} cameras={cameras} tenants={tenants} onChange={setEditing} onDelete={setDeleting} />}
      {editing !== null && (
        <UserDialog
          user={editing === "new" ? null : editing}
          self={editing !== "new" && editing.name === me.name}
          cameras={cameras}
          tenants={tenants}
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

interface TableProps {
  users: UserAnswer[];
  me: Me;
  cameras: Camera[];
  tenants: Tenant[];
  onChange: (user: UserAnswer) => void;
  onDelete: (user: UserAnswer) => void;
}

function UsersTable({ users, me, cameras, tenants, onChange, onDelete }: TableProps) {
  const limited = users.some((u) => u.tenants !== null);
  return (
    <Table
      caption="Users"
      rows={users}
      rowKey={(u) => u.name}
      empty="No user: this appliance has no login."
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
        { key: "role", title: "Role", cell: (u) => roleName(u.role) },
        { key: "cameras", title: "Cameras", cell: (u) => limitWords(u.cameras, cameras) },
        ...(limited ? [{ key: "tenants", title: "Tenants", cell: (u: UserAnswer) => (u.tenants === null ? "all" : u.tenants.map((id) => tenantName(tenants, id)).join(", ") || "none") }] : []),
        { key: "state", title: "State", cell: (u) => (u.disabled ? <Badge tone="off">Disabled</Badge> : <Badge tone="good">May log in</Badge>) },
        { key: "last", title: "Last login", cell: (u) => (u.last_login_utc_s === null ? <span class="quiet">never</span> : moment(u.last_login_utc_s)) },
        {
          key: "actions",
          title: "Actions",
          cell: (u) => (
            <span class="row-actions">
              <button type="button" aria-label={`Change ${u.name}`} onClick={() => onChange(u)}>
                Change
              </button>
              {u.name !== me.name && (
                <button type="button" aria-label={`Delete ${u.name}`} onClick={() => onDelete(u)}>
                  Delete
                </button>
              )}
            </span>
          ),
        },
      ]}
    />
  );
}

interface UserProps {
  /** Null: one who is added. */
  user: UserAnswer | null;
  self: boolean;
  cameras: Camera[];
  tenants: Tenant[];
}

interface DialogProps extends UserProps {
  onClose: () => void;
  onSaved: () => void;
}

/** The body that the server checks: no password means that it stays. */
function checked(draft: Json): Json {
  const { password, disabled: _, ...rest } = draft;
  return password === "" ? rest : { ...rest, password };
}

function draftOf(user: UserAnswer | null) {
  return {
    name: user?.name ?? "",
    role: user?.role ?? "viewer",
    cameras: user?.cameras ?? null,
    tenants: user?.tenants ?? null,
    password: "",
    disabled: user?.disabled ?? false,
  };
}

type Draft = ReturnType<typeof draftOf>;

function UserDialog({ onClose, onSaved, ...given }: DialogProps) {
  const { user } = given;
  const [first] = useState(() => draftOf(user));
  const form = useForm("user", first, checked);
  const draft = form.draft as Draft;

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const name = draft.name.trim();
    const done = await form.save(async (_, patch) => {
      if (user === null) await ask("/users", "POST", { name, role: draft.role, cameras: draft.cameras, tenants: draft.tenants, password: draft.password });
      else await ask(`/users/${encodeURIComponent(user.name)}`, "PATCH", patch);
      return true;
    });
    if (!done) return;
    toast(user === null ? `User ${name} added` : `User ${user.name} changed`);
    onSaved();
  };

  return (
    <Dialog title={user === null ? "Add a user" : `Change the user ${user.name}`} onClose={onClose}>
      <form ref={form.place} class="stacked" onSubmit={(e) => void submit(e)} noValidate>
        <UserFields {...given} form={form} draft={draft} />
        <FormProblems problems={form.problems} fields={["name", "role", "cameras", "tenants", "password", "disabled"]} failure={form.failure} />
        <div class="actions end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={form.busy || (user === null ? draft.name.trim() === "" || draft.password === "" : !form.dirty)}>
            {form.busy ? "Saving…" : "Save"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface FieldsProps extends UserProps {
  form: Form;
  draft: Draft;
}

function UserFields(props: FieldsProps) {
  const { form, draft, user, self } = props;
  const { problems } = form;
  return (
    <>
      {user === null && (
        <TextField
          label="Name"
          path="name"
          problems={problems}
          value={draft.name}
          onChange={(name) => form.change("name", name)}
          input={{ autocomplete: "off", autocapitalize: "none", spellcheck: false, required: true, maxLength: 63 }}
        />
      )}
      <RightsFields {...props} />
      {!self && (
        <NewPassword
          label={user === null ? "Password" : "New password"}
          path="password"
          problems={problems}
          value={draft.password}
          onChange={(password) => form.change("password", password)}
          hint={user === null ? `${PASSWORD_RULE} The user is asked to choose another at the first login.` : `Empty: it stays. ${PASSWORD_RULE} A new one logs the user out everywhere.`}
          required={user === null}
        />
      )}
      {user !== null && !self && (
        <SwitchField
          label="Disabled"
          path="disabled"
          problems={problems}
          value={draft.disabled}
          hint="May not log in, and is logged out."
          onChange={(disabled) => form.change("disabled", disabled)}
        />
      )}
    </>
  );
}

/** The role, and the cameras and tenants that the user is limited to. */
function RightsFields({ form, draft, self, cameras, tenants }: FieldsProps) {
  const { problems } = form;
  return (
    <>
      <SelectField
        label="Role"
        path="role"
        problems={problems}
        value={draft.role}
        disabled={self}
        {...(self ? { hint: "One's own role is changed by another administrator." } : {})}
        options={ROLES.map((r) => ({ value: r, label: ROLE_WORDS[r] }))}
        onChange={(role) => form.change("role", role)}
      />
      <CamerasLimit
        cameras={cameras}
        value={draft.cameras}
        problems={problems}
        disabled={self}
        hint="Others are as if they were not there. Changes that concern every camera are then not offered."
        onChange={(limit) => form.change("cameras", limit)}
      />
      {(tenants.length > 0 || draft.tenants !== null) && (
        <TenantsLimit
          tenants={tenants}
          value={draft.tenants}
          problems={problems}
          disabled={self}
          hint="Shares and performance of other tenants are not shown. Changes that concern the whole box are then not offered."
          onChange={(limit) => form.change("tenants", limit)}
        />
      )}
    </>
  );
}
