/** Secrets: kept, replaced, deleted, and never shown again. */

import { useState } from "preact/hooks";

import type { SecretAnswer } from "../answers";
import { ApiError, ask } from "../api";
import { useAsked } from "../parts/asking";
import { Confirm, Dialog } from "../parts/dialog";
import { FormProblems, TextField } from "../parts/form";
import { useForm } from "../parts/schema_form";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { toast } from "../parts/toasts";

export function SecretsSection() {
  const { value, error, again } = useAsked<SecretAnswer[]>("/secrets");
  const [editing, setEditing] = useState<string | null>(null);
  const [deleting, setDeleting] = useState<SecretAnswer | null>(null);
  return (
    <section class="card" aria-labelledby="secrets-title">
      <div class="card-head">
        <h2 id="secrets-title">Secrets</h2>
        <button type="button" class="primary" onClick={() => setEditing("")}>
          Add a secret
        </button>
      </div>
      <p class="quiet lead">
        Passwords of cameras and of other systems. A secret is referred to as <code>secret:NAME</code> where a password is asked for. It can be
        replaced and deleted, and no user can read it again.
      </p>
      {error !== null && <ErrorBox what="The secrets could not be loaded" error={error} onRetry={again} />}
      {value === null && error === null && <Loading />}
      {value?.length === 0 && <Empty title="No secret yet">The password of a camera is the usual first one.</Empty>}
      {value !== null && value.length > 0 && <SecretsTable secrets={value} onReplace={setEditing} onDelete={setDeleting} />}
      {editing !== null && (
        <SecretDialog
          name={editing}
          onClose={() => setEditing(null)}
          onSaved={() => {
            setEditing(null);
            again();
          }}
        />
      )}
      {deleting && (
        <Confirm
          title={`Delete the secret ${deleting.name}?`}
          action="Delete"
          danger
          onClose={() => setDeleting(null)}
          onConfirm={async () => {
            await ask(`/secrets/${encodeURIComponent(deleting.name)}`, "DELETE");
            toast(`Secret ${deleting.name} deleted`);
            again();
          }}
        >
          <p>This cannot be undone: its value is not shown anywhere.</p>
          {deleting.used_by.length > 0 && <p class="problem">It is used by {deleting.used_by.join(", ")}.</p>}
        </Confirm>
      )}
    </section>
  );
}

interface TableProps {
  secrets: SecretAnswer[];
  onReplace: (name: string) => void;
  onDelete: (secret: SecretAnswer) => void;
}

function SecretsTable({ secrets, onReplace, onDelete }: TableProps) {
  return (
    <Table
      caption="Secrets and what uses them"
      rows={secrets}
      rowKey={(s) => s.name}
      columns={[
        { key: "name", title: "Refer to it as", cell: (s) => <code>secret:{s.name}</code> },
        { key: "used", title: "Used by", cell: (s) => (s.used_by.length > 0 ? s.used_by.join(", ") : <span class="quiet">nothing</span>) },
        {
          key: "actions",
          title: "Actions",
          cell: (s) => (
            <span class="row-actions">
              <button type="button" aria-label={`Replace ${s.name}`} onClick={() => onReplace(s.name)}>
                Replace
              </button>
              <button type="button" aria-label={`Delete ${s.name}`} onClick={() => onDelete(s)}>
                Delete
              </button>
            </span>
          ),
        },
      ]}
    />
  );
}

/** The name is part of the address: its problems are shown at its field. */
function atField(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error;
  const problems = error.problems.map((p) => (p.path === "path.name" ? { ...p, path: "name" } : p));
  return new ApiError(error.status, error.message, problems, error.code);
}

function SecretDialog({ name: given, onClose, onSaved }: { name: string; onClose: () => void; onSaved: () => void }) {
  const [first] = useState({ name: given, value: "" });
  const form = useForm("secret", first);
  const draft = form.draft as typeof first;
  const name = draft.name.trim();
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const done = await form.save(async () => {
      try {
        await ask(`/secrets/${encodeURIComponent(name)}`, "PUT", { value: draft.value });
      } catch (error) {
        throw atField(error);
      }
      return true;
    });
    if (!done) return;
    toast(`Secret ${name} saved`);
    onSaved();
  };
  return (
    <Dialog title={given ? `Replace the secret ${given}` : "Add a secret"} onClose={onClose}>
      <form ref={form.place} class="stacked" onSubmit={(e) => void submit(e)} noValidate>
        {given === "" && (
          <TextField
            label="Name"
            path="name"
            problems={form.problems}
            value={draft.name}
            onChange={(to) => form.change("name", to)}
            hint="Letters, digits, - _ and a dot. Others refer to it as secret:NAME."
            input={{ autocomplete: "off", autocapitalize: "none", spellcheck: false, required: true, maxLength: 100 }}
          />
        )}
        <TextField
          label="Value"
          path="value"
          problems={form.problems}
          value={draft.value}
          onChange={(value) => form.change("value", value)}
          hint="It is not shown again."
          input={{ type: "password", autocomplete: "new-password", required: true }}
        />
        <FormProblems problems={form.problems} fields={["name", "value"]} failure={form.failure} />
        <div class="actions end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={form.busy || name === "" || draft.value === ""}>
            {form.busy ? "Saving…" : "Save"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
