/** API tokens, for programs, and sessions: where one is logged in. */

import { useState } from "preact/hooks";

import type { Camera, Me, Problem, Role } from "../api";
import { ask, problemsOf, words } from "../api";
import { moment } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm, Dialog } from "../parts/dialog";
import { FormProblems, SelectField, SwitchField, TextField, typedNumber } from "../parts/form";
import { Choices } from "../parts/schema_form";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { toast } from "../parts/toasts";
import { may } from "../session";
import type { SectionProps } from "./settings";
import { ROLE_WORDS } from "./settings_users";

interface Token {
  id: string;
  name: string;
  role: Role;
  cameras: string[] | null;
  prefix: string;
  user: string;
  created_utc_s: number;
  expires_utc_s: number | null;
  last_used_utc_s: number | null;
  token?: string;
}

interface Session {
  id: string;
  user: string;
  address: string | null;
  agent: string;
  created_utc_s: number;
  last_used_utc_s: number | null;
  expires_utc_s: number;
  current: boolean;
}

const ROLES: Role[] = ["viewer", "operator", "admin"];

export function TokensSection({ known, me }: SectionProps) {
  if (me.kind === "open") {
    return (
      <section class="card" aria-labelledby="tokens-title">
        <h2 id="tokens-title">Tokens and sessions</h2>
        <p class="quiet">This appliance asks nobody to log in, so there are neither tokens nor sessions.</p>
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
  const { value, error, again } = useAsked<Token[]>("/tokens");
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<Token | null>(null);
  const [deleting, setDeleting] = useState<Token | null>(null);
  const named = (id: string): string => cameras.find((c) => c.id === id)?.name ?? id;
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
        {may(me, "admin") && me.cameras === null && " An administrator sees everybody's."}
      </p>
      {error !== null && <ErrorBox what="The tokens could not be asked" error={error} onRetry={again} />}
      {value === null && error === null && <Loading />}
      {value?.length === 0 && <Empty title="No token yet" />}
      {value !== null && value.length > 0 && (
        <Table
          caption="API tokens"
          rows={value}
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
            { key: "role", title: "Role", cell: (t) => ROLE_WORDS[t.role]?.split(":")[0] ?? t.role },
            { key: "cameras", title: "Cameras", cell: (t) => (t.cameras === null ? "all" : t.cameras.map(named).join(", ") || "none") },
            { key: "expires", title: "Ends", cell: (t) => (t.expires_utc_s === null ? "never" : moment(t.expires_utc_s)) },
            { key: "used", title: "Last used", cell: (t) => (t.last_used_utc_s === null ? <span class="quiet">never</span> : moment(t.last_used_utc_s)) },
            {
              key: "actions",
              title: "Actions",
              cell: (t) => (
                <button type="button" aria-label={`Delete token ${t.name}`} onClick={() => setDeleting(t)}>
                  Delete
                </button>
              ),
            },
          ]}
        />
      )}
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

function Once({ token, onClose }: { token: Token; onClose: () => void }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(token.token ?? "");
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
        <input id="token-once" type="text" readOnly aria-label="API token" value={token.token ?? ""} onFocus={(e) => e.currentTarget.select()} />
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

function TokenDialog({ me, cameras, onClose, onMade }: { me: Me; cameras: Camera[]; onClose: () => void; onMade: (token: Token) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [some, setSome] = useState(false);
  const [chosen, setChosen] = useState<string[]>([]);
  const [days, setDays] = useState("365");
  const [problems, setProblems] = useState<Problem[]>([]);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblems([]);
    setFailure("");
    try {
      onMade(await ask<Token>("/tokens", "POST", { name: name.trim(), role, cameras: some ? chosen : null, expires_days: typedNumber(days) }));
    } catch (error) {
      setProblems(problemsOf(error));
      if (problemsOf(error).length === 0) setFailure(words(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title="Make a token" onClose={onClose}>
      <form class="stacked" onSubmit={(e) => void submit(e)}>
        <TextField label="Name" path="name" problems={problems} value={name} onChange={setName} hint="What it is for: Prometheus" input={{ autocomplete: "off", required: true, maxLength: 100 }} />
        <SelectField
          label="Role"
          path="role"
          problems={problems}
          value={role}
          hint="Never more than your own."
          options={ROLES.filter((r) => may(me, r)).map((r) => ({ value: r, label: ROLE_WORDS[r] }))}
          onChange={(r) => setRole(r as Role)}
        />
        <SwitchField label="Only some cameras" path="some" problems={[]} value={some} onChange={setSome} />
        {some && (
          <Choices label="Cameras" path="cameras" problems={problems} options={cameras.map((c) => ({ value: c.id, label: c.name }))} value={chosen} disabled={false} onChange={setChosen} />
        )}
        <TextField label="Ends after" unit="days" path="expires_days" problems={problems} value={days} onChange={setDays} hint="Empty: never." input={{ inputMode: "decimal", autocomplete: "off" }} />
        <FormProblems problems={problems} fields={["name", "role", "cameras", "expires_days"]} failure={failure} />
        <div class="actions end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy || name.trim() === ""}>
            {busy ? "One moment…" : "Make it"}
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
  const { value, error, again } = useAsked<Session[]>("/sessions");
  const end = async (session: Session): Promise<void> => {
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
      {error !== null && <ErrorBox what="The sessions could not be asked" error={error} onRetry={again} />}
      {value === null && error === null && <Loading />}
      {value !== null && (
        <Table
          caption="Sessions"
          rows={value}
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
                  <button type="button" aria-label={`End the session of ${s.user} from ${s.address ?? "unknown"}`} onClick={() => void end(s)}>
                    End
                  </button>
                ),
            },
          ]}
        />
      )}
    </section>
  );
}
