/** API tokens, for programs, and sessions: where one is logged in. */

import { useState } from "preact/hooks";

import type { NewTokenAnswer, SessionAnswer, TokenAnswer } from "../answers";
import type { Camera, Me } from "../api";
import { ask, words } from "../api";
import { moment } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm, Dialog } from "../parts/dialog";
import { FormProblems, SelectField, TextField, typedNumber } from "../parts/form";
import { CamerasLimit, ROLES, ROLE_WORDS, limitWords, roleName } from "../parts/limits";
import { useForm } from "../parts/schema_form";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { toast } from "../parts/toasts";
import { may, seesAll } from "../session";
import type { SectionProps } from "./page";

export function TokensSection({ known, me }: SectionProps) {
  if (me.kind === "open") {
    return (
      <section class="card" aria-labelledby="tokens-title">
        <h2 id="tokens-title">Tokens and sessions</h2>
        <p class="quiet">This appliance has no login, so there are neither tokens nor sessions.</p>
      </section>
    );
  }
  return (
    <>
      <Tokens me={me} cameras={known.overview?.cameras ?? []} />
      <Sessions me={me} />
    </>
  );
}

function Tokens({ me, cameras }: { me: Me; cameras: Camera[] }) {
  const { value, error, again } = useAsked<TokenAnswer[]>("/tokens");
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<NewTokenAnswer | null>(null);
  const [deleting, setDeleting] = useState<TokenAnswer | null>(null);
  return (
    <section class="card" aria-labelledby="tokens-title">
      <div class="card-head">
        <h2 id="tokens-title">API tokens</h2>
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          Make a token
        </button>
      </div>
      <p class="quiet lead">
        For programs: Prometheus, Home Assistant, scripts. A program sends it as <code>Authorization: Bearer TOKEN</code>.
        {may(me, "admin") && seesAll(me) && " An administrator sees everybody's."}
      </p>
      {error !== null && <ErrorBox what="The tokens could not be loaded" error={error} onRetry={again} />}
      {value === null && error === null && <Loading />}
      {value?.length === 0 && <Empty title="No token yet" />}
      {value !== null && value.length > 0 && <TokensTable tokens={value} me={me} cameras={cameras} onDelete={setDeleting} />}
      {adding && (
        <TokenDialog
          me={me}
          cameras={cameras}
          onClose={() => setAdding(false)}
          onMade={(token) => {
            setAdding(false);
            setMade(token);
            again();
          }}
        />
      )}
      {made && <Once token={made} onClose={() => setMade(null)} />}
      {deleting && (
        <Confirm
          title={`Delete the token ${deleting.name}?`}
          action="Delete"
          danger
          onClose={() => setDeleting(null)}
          onConfirm={async () => {
            await ask(`/tokens/${encodeURIComponent(deleting.id)}`, "DELETE");
            toast(`Token ${deleting.name} deleted`);
            again();
          }}
        >
          <p>Programs that use it are refused from now on. This cannot be undone.</p>
        </Confirm>
      )}
    </section>
  );
}

interface TableProps {
  tokens: TokenAnswer[];
  me: Me;
  cameras: Camera[];
  onDelete: (token: TokenAnswer) => void;
}

function TokensTable({ tokens, me, cameras, onDelete }: TableProps) {
  return (
    <Table
      caption="API tokens"
      rows={tokens}
      rowKey={(t) => t.id}
      columns={[
        {
          key: "name",
          title: "Name",
          cell: (t) => (
            <>
              {t.name} <code class="quiet">{t.prefix}…</code>
              {t.user !== me.name && <span class="quiet under">of {t.user}</span>}
            </>
          ),
        },
        { key: "role", title: "Role", cell: (t) => roleName(t.role) },
        { key: "cameras", title: "Cameras", cell: (t) => (limitWords(t.cameras, cameras)) },
        { key: "expires", title: "Ends", cell: (t) => (t.expires_utc_s === null ? "never" : moment(t.expires_utc_s)) },
        { key: "used", title: "Last used", cell: (t) => (t.last_used_utc_s === null ? <span class="quiet">never</span> : moment(t.last_used_utc_s)) },
        {
          key: "actions",
          title: "Actions",
          cell: (t) => (
            <button type="button" aria-label={`Delete token ${t.name}`} onClick={() => onDelete(t)}>
              Delete
            </button>
          ),
        },
      ]}
    />
  );
}

function Once({ token, onClose }: { token: NewTokenAnswer; onClose: () => void }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(token.token);
      setCopied(true);
    } catch {
      // Without TLS a browser may forbid it: then the text is chosen, to be copied by hand.
      const field = document.getElementById("token-once");
      if (field instanceof HTMLInputElement) field.select();
    }
  };
  return (
    <Dialog title={`The token ${token.name}`} onClose={onClose}>
      <p>Copy it now: it is shown this once.</p>
      <div class="once">
        <input id="token-once" type="text" readOnly aria-label="API token" value={token.token} onFocus={(e) => e.currentTarget.select()} />
        <button type="button" class="primary" onClick={() => void copy()}>
          {copied ? "Copied" : "Copy"}
        </button>
      </div>
      <p class="hidden" role="status">
        {copied ? "Copied to the clipboard" : ""}
      </p>
      <div class="actions end">
        <button type="button" onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}

const NEW = { name: "", role: "viewer", cameras: null as string[] | null, expires_days: "365" };

function TokenDialog({ me, cameras, onClose, onMade }: { me: Me; cameras: Camera[]; onClose: () => void; onMade: (token: NewTokenAnswer) => void }) {
  const asked = (d: Record<string, unknown>): Record<string, unknown> => ({ ...d, name: String(d["name"]).trim(), expires_days: typedNumber(String(d["expires_days"])) });
  // Checking is for operators; a viewer hears of objections on sending.
  const form = useForm(may(me, "operator") ? "token" : null, NEW, asked);
  const { problems } = form;
  const draft = form.draft as typeof NEW;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const made = await form.save((d) => ask<NewTokenAnswer>("/tokens", "POST", asked(d)));
    if (made !== undefined) onMade(made);
  };
  return (
    <Dialog title="Make a token" onClose={onClose}>
      <form ref={form.place} class="stacked" onSubmit={(e) => void submit(e)} noValidate>
        <TextField
          label="Name"
          path="name"
          problems={problems}
          value={draft.name}
          onChange={(name) => form.change("name", name)}
          hint="Its purpose: Prometheus"
          input={{ autocomplete: "off", required: true, maxLength: 100 }}
        />
        <SelectField
          label="Role"
          path="role"
          problems={problems}
          value={draft.role}
          hint="Never more than your own."
          options={ROLES.filter((r) => may(me, r)).map((r) => ({ value: r, label: ROLE_WORDS[r] }))}
          onChange={(role) => form.change("role", role)}
        />
        <CamerasLimit cameras={cameras} value={draft.cameras} problems={problems} onChange={(limit) => form.change("cameras", limit)} />
        <TextField
          label="Ends after"
          unit="days"
          path="expires_days"
          problems={problems}
          value={draft.expires_days}
          onChange={(days) => form.change("expires_days", days)}
          hint="Empty: never."
          input={{ inputMode: "decimal", autocomplete: "off" }}
        />
        <FormProblems problems={problems} fields={["name", "role", "cameras", "expires_days"]} failure={form.failure} />
        <div class="actions end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={form.busy || draft.name.trim() === ""}>
            {form.busy ? "One moment…" : "Make it"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A browser and its system, as far as it says. */
function browser(agent: string): string {
  const names: [RegExp, string][] = [
    [/Edg\//, "Edge"],
    [/Firefox\//, "Firefox"],
    [/Chrom(e|ium)\//, "Chrome"],
    [/HeadlessChrome\//, "Chrome"],
    [/Safari\//, "Safari"],
  ];
  const systems: [RegExp, string][] = [
    [/Android/, "Android"],
    [/iPhone|iPad/, "iOS"],
    [/Windows/, "Windows"],
    [/Mac OS X/, "macOS"],
    [/Linux/, "Linux"],
  ];
  const find = (list: [RegExp, string][]): string | undefined => list.find(([pattern]) => pattern.test(agent))?.[1];
  const [name, system] = [find(names), find(systems)];
  return name === undefined ? agent : system === undefined ? name : `${name} on ${system}`;
}

function Sessions({ me }: { me: Me }) {
  const { value, error, again } = useAsked<SessionAnswer[]>("/sessions");
  const end = async (session: SessionAnswer): Promise<void> => {
    try {
      await ask(`/sessions/${encodeURIComponent(session.id)}`, "DELETE");
      toast("Session ended");
      again();
    } catch (failure) {
      toast(`Not ended: ${words(failure)}`, "bad");
    }
  };
  return (
    <section class="card" aria-labelledby="sessions-title">
      <div class="card-head">
        <h2 id="sessions-title">Sessions</h2>
      </div>
      <p class="quiet lead">Browsers that are logged in. End those that you do not know, and change your password.</p>
      {error !== null && <ErrorBox what="The sessions could not be loaded" error={error} onRetry={again} />}
      {value === null && error === null && <Loading />}
      {value !== null && <SessionsTable sessions={value} me={me} onEnd={(s) => void end(s)} />}
    </section>
  );
}

interface SessionsProps {
  sessions: SessionAnswer[];
  me: Me;
  onEnd: (session: SessionAnswer) => void;
}

function SessionsTable({ sessions, me, onEnd }: SessionsProps) {
  return (
    <Table
      caption="Sessions"
      rows={sessions}
      rowKey={(s) => s.id}
      empty="No browser is logged in."
      columns={[
        {
          key: "where",
          title: "Where",
          cell: (s) => (
            <>
              {s.address ?? "unknown"} {s.current && <Badge tone="info">this one</Badge>}
              <span class="quiet under break" title={s.agent}>
                {browser(s.agent)}
              </span>
            </>
          ),
        },
        { key: "user", title: "User", cell: (s) => (s.user === me.name ? `${s.user} (you)` : s.user) },
        { key: "began", title: "Logged in", cell: (s) => moment(s.created_utc_s) },
        {
          key: "seen",
          title: "Last seen",
          cell: (s) => (s.last_used_utc_s === null ? "–" : moment(s.last_used_utc_s)),
        },
        {
          key: "actions",
          title: "Actions",
          cell: (s) =>
            s.current ? (
              <span class="quiet">log out in the menu</span>
            ) : (
              <button type="button" aria-label={`End the session of ${s.user} from ${s.address ?? "unknown"}`} onClick={() => onEnd(s)}>
                End
              </button>
            ),
        },
      ]}
    />
  );
}
