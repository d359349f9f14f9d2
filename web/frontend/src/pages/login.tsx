/** Log in, and the first administrator of a new appliance. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { SetupAnswer } from "../answers";
import type { Me } from "../api";
import { ApiError, ask } from "../api";
import { Mark } from "../header";
import { FormProblems, TextField } from "../parts/form";
import { NewPasswordTwice, typedTwice } from "../parts/new_password";
import { PasswordForm } from "../parts/password";
import type { Json } from "../parts/schema_form";
import { useForm } from "../parts/schema_form";
import { ErrorBox, Loading } from "../parts/states";
import type { Route } from "../router";
import { go } from "../router";

interface Props {
  route: Route;
  /** The session's cookie is there: go on. */
  entered: () => Promise<void>;
}

function Frame({ title, children }: { title: string; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} – Magpie`;
  }, [title]);
  return (
    <main class="alone">
      <div class="card login">
        <p class="brand">
          <Mark />
          <span class="site">Magpie</span>
        </p>
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  );
}

/** Seconds that are left to wait, counted down. */
function useWait(): [number, (seconds: number) => void] {
  const [until, setUntil] = useState(0);
  const [now, setNow] = useState(Date.now());
  const waits = until > now;
  useEffect(() => {
    if (!waits) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [waits]);
  const start = (seconds: number): void => {
    setNow(Date.now());
    setUntil(Date.now() + 1000 * seconds);
  };
  return [Math.max(0, Math.ceil((until - now) / 1000)), start];
}

/** A form to log in by: what it holds, and how long one waits after too many tries. */
function useDoor<Draft extends Json>(empty: Draft, entered: () => Promise<void>) {
  const form = useForm(null, empty);
  const [wait_s, wait] = useWait();
  const knock = (path: string, body: Json, refused?: () => void): Promise<unknown> =>
    form.save(async () => {
      try {
        await ask(path, "POST", body);
        await entered();
      } catch (error) {
        refused?.();
        if (!(error instanceof ApiError && error.status === 429)) throw error;
        wait(error.retry_after_s ?? 30);
      }
    });
  return { form, draft: form.draft as Draft, wait_s, knock };
}

function TooMany({ wait_s }: { wait_s: number }) {
  if (wait_s === 0) return null;
  return (
    <p class="problem" role="alert">
      Too many tries. Wait {wait_s} {wait_s === 1 ? "second" : "seconds"}.
    </p>
  );
}

export function LoginPage({ route, entered }: Props) {
  const link = route.query.get("link");
  return link === null ? <PasswordLogin entered={entered} /> : <LinkLogin link={link} entered={entered} />;
}

const EMPTY_LOGIN = { name: "", password: "" };

function PasswordLogin({ entered }: Pick<Props, "entered">) {
  const { form, draft, wait_s, knock } = useDoor(EMPTY_LOGIN, entered);

  useEffect(() => {
    form.place.current?.querySelector("input")?.focus();
  }, []);

  const submit = (event: Event): void => {
    event.preventDefault();
    void knock("/login", draft, () => {
      form.change("password", "");
      form.place.current?.querySelector<HTMLInputElement>("input[type=password]")?.focus();
    });
  };

  return (
    <Frame title="Log in">
      <form ref={form.place} class="stacked" onSubmit={submit}>
        <TextField
          label="Name"
          path="name"
          problems={form.problems}
          value={draft.name}
          onChange={(name) => form.change("name", name)}
          input={{ autocomplete: "username", autocapitalize: "none", spellcheck: false, required: true, maxLength: 100 }}
        />
        <TextField
          label="Password"
          path="password"
          problems={form.problems}
          value={draft.password}
          onChange={(password) => form.change("password", password)}
          input={{ type: "password", autocomplete: "current-password", required: true, maxLength: 1000 }}
        />
        <FormProblems problems={form.problems} fields={["name", "password"]} failure={form.failure} />
        <TooMany wait_s={wait_s} />
        <button type="submit" class="primary wide" disabled={form.busy || wait_s > 0 || draft.name === "" || draft.password === ""}>
          {form.busy ? "Logging in…" : wait_s > 0 ? `Wait ${wait_s} s` : "Log in"}
        </button>
      </form>
      <p class="quiet small">
        Forgotten? A user of the appliance's command line can set a new password: <code>magpie user --help</code>.
      </p>
    </Frame>
  );
}

/** A link that logs in once. The token leaves the address, and so the browser's history, at once. */
function LinkLogin({ link, entered }: { link: string } & Pick<Props, "entered">) {
  const [failure, setFailure] = useState<unknown>(null);
  const began = useRef(false);
  useEffect(() => {
    if (began.current) return;
    began.current = true;
    ask("/login/link", "POST", { token: link })
      .then(entered)
      .then(() => go("#/wall", true))
      .catch((error: unknown) => {
        history.replaceState(null, "", "#/login");
        setFailure(error);
      });
  }, []);
  return (
    <Frame title="Log in">
      {failure === null ? (
        <Loading what="Logging in" />
      ) : (
        <>
          <ErrorBox what="This link does not log in" error={failure} />
          <p class="quiet">A link works once, and not for long. Start the demo again for a new one, or log in by name.</p>
          <button type="button" class="primary wide" onClick={() => dispatchEvent(new HashChangeEvent("hashchange"))}>
            Log in by name
          </button>
        </>
      )}
    </Frame>
  );
}

export function SetupPage({ route, entered }: Props) {
  const [open, setOpen] = useState(true);

  useEffect(() => {
    ask<SetupAnswer>("/setup").then(
      (answer) => setOpen(answer.open),
      () => undefined, // the form itself shows the error
    );
  }, []);

  return (
    <Frame title="Set up Magpie">
      {open ? (
        <SetupForm given={route.query.get("token") ?? ""} entered={entered} />
      ) : (
        <>
          <p>This appliance is set up already: it has an administrator.</p>
          <a class="button primary wide" href="#/login">
            Log in
          </a>
        </>
      )}
    </Frame>
  );
}

/** `given`: the set-up code of the address; empty: it has to be typed. */
function SetupForm({ given, entered }: { given: string } & Pick<Props, "entered">) {
  const { form, draft, wait_s, knock } = useDoor({ token: given, name: "", password: "", again: "" }, entered);
  const { token, name, password, again } = draft;
  const { problems } = form;

  const submit = (event: Event): void => {
    event.preventDefault();
    void knock("/setup", { token, name, password });
  };

  return (
    <>
      <p class="quiet">Choose the first administrator. Everything else can be changed later.</p>
      <form ref={form.place} class="stacked" onSubmit={submit}>
        {given === "" && (
          <TextField
            label="Set-up code"
            path="token"
            problems={problems}
            value={token}
            onChange={(to) => form.change("token", to)}
            hint="The appliance printed a link with it when it first started."
            input={{ autocomplete: "off", spellcheck: false, required: true }}
          />
        )}
        <TextField
          label="Name"
          path="name"
          problems={problems}
          value={name}
          onChange={(to) => form.change("name", to)}
          input={{ autocomplete: "username", autocapitalize: "none", spellcheck: false, required: true, maxLength: 100 }}
        />
        <NewPasswordTwice
          label="Password"
          path="password"
          value={password}
          onChange={(to) => form.change("password", to)}
          problems={problems}
          again={again}
          onAgain={(to) => form.change("again", to)}
        />
        <FormProblems problems={problems} fields={given === "" ? ["token", "name", "password"] : ["name", "password"]} failure={form.failure} />
        <TooMany wait_s={wait_s} />
        <button
          type="submit"
          class="primary wide"
          disabled={form.busy || wait_s > 0 || token === "" || name === "" || !typedTwice(password, again)}
        >
          {form.busy ? "One moment…" : "Set up and log in"}
        </button>
      </form>
    </>
  );
}

interface OwnPasswordProps {
  me: Me;
  changed: () => Promise<void>;
  onLogOut: () => Promise<void>;
}

/** All that a user sees before they chose a password of their own. */
export function OwnPasswordPage({ me, changed, onLogOut }: OwnPasswordProps) {
  return (
    <Frame title="Choose your password">
      <p>This password was chosen by another user. Choose your own to go on.</p>
      <PasswordForm me={me} onDone={() => void changed()} instead="Log out" onInstead={() => void onLogOut()} />
    </Frame>
  );
}
