/** Outputs: the MQTT broker, webhooks, and messages that were given up. */

import { useState } from "preact/hooks";

import type { DeadLetterAnswer, MqttAnswer, OutputState, OutputTest, OutputsAnswer, SecretAnswer, WebhookAnswer } from "../answers";
import { ask, words } from "../api";
import { bytes, duration, moment } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Confirm } from "../parts/dialog";
import { Older } from "../parts/older";
import { usePaged } from "../parts/paged";
import type { Form, Group, Json, Schema } from "../parts/schema_form";
import { SchemaFields, defaultsOf, useForm } from "../parts/schema_form";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { toast } from "../parts/toasts";
import { go, href } from "../router";
import type { SectionProps } from "./page";

const EVERY_S = 5;
const TEST_MS = 40_000;

function mqttGroups(secrets: string[]): Group[] {
  return [
    {
      title: "Broker",
      fields: [
        { path: "enabled", label: "On" },
        { path: "host", label: "Host", hint: "Name or address of the broker" },
        { path: "port", label: "Port" },
        { path: "tls", label: "TLS", hint: "The connection is encrypted and the broker's certificate checked" },
        { path: "ca_file", label: "Certificates", shown: (d) => d["tls"] === true },
        { path: "username", label: "User name" },
        { path: "password_from", label: "Password", hint: "A reference: secret:NAME (Settings, Secrets), or what the configuration file allows", suggestions: secrets },
      ],
    },
    {
      title: "What is sent",
      fields: [
        { path: "prefix", label: "Topic prefix" },
        { path: "objects", label: "Events of objects", hint: "An event for each object that comes and goes" },
        { path: "counts", label: "Counts", hint: "Each minute's, of cameras that have lines or zones" },
        { path: "discovery", label: "Home Assistant", hint: "Tell Home Assistant what there is: cameras show up there by themselves" },
        { path: "discovery_prefix", label: "Discovery prefix", shown: (d) => d["discovery"] === true },
      ],
    },
    { title: "More", folded: true, fields: [{ path: "client_id", label: "Client id" }, { path: "keepalive_s", label: "Keep-alive", unit: "s" }, ...queueFields()] },
  ];
}

function queueFields() {
  return [
    { path: "queue.max_messages", label: "Messages that wait, at most" },
    { path: "queue.max_mb", label: "Size of what waits, at most", unit: "MB" },
    { path: "queue.max_age_h", label: "Age of what waits, at most", unit: "h" },
  ];
}

function webhookGroups(secrets: string[], cameras: { id: string; name: string }[], isNew: boolean): Group[] {
  return [
    {
      title: "Receiver",
      fields: [
        ...(isNew ? [{ path: "id", label: "Id", hint: "Small letters, digits, - and _; it does not change" }] : []),
        { path: "enabled", label: "On" },
        { path: "url", label: "Address" },
        { path: "secret_from", label: "Signing secret", hint: "A reference: secret:NAME (Settings, Secrets), or what the configuration file allows. Each message is signed with it.", suggestions: secrets },
      ],
    },
    {
      title: "What is sent",
      fields: [
        { path: "kinds", label: "Kinds" },
        { path: "phases", label: "Phases", hint: "None chosen: all." },
        { path: "severities", label: "Alarms that are", hint: "None chosen: all." },
        { path: "cameras", label: "Cameras", hint: "None chosen: all.", options: cameras.map((c) => ({ value: c.id, label: c.name })) },
      ],
    },
    {
      title: "More",
      folded: true,
      fields: [
        { path: "ca_file", label: "Certificates" },
        { path: "timeout_s", label: "Wait for an answer", unit: "s" },
        { path: "max_tries", label: "Tries" },
        { path: "link_local", label: "Link-local addresses too" },
        ...queueFields(),
      ],
    },
  ];
}

/** Settings without what the server adds. */
function settingsOf(output: MqttAnswer | WebhookAnswer): Json {
  const { state: _, ...settings } = output;
  return settings;
}

export function OutputsSection({ root, known, rest }: SectionProps) {
  const found = useAsked<OutputsAnswer>("/outputs", null, EVERY_S);
  const secrets = useAsked<SecretAnswer[]>("/secrets").value?.map((s) => `secret:${s.name}`) ?? [];
  const cameras = known.overview?.cameras ?? [];
  const { value, error, again } = found;
  if (value === null) return error === null ? <Loading /> : <ErrorBox what="The outputs could not be loaded" error={error} onRetry={again} />;
  const back = (): void => {
    again();
    go(href("settings", "outputs"));
  };
  if (rest[0] === "mqtt") return <MqttForm root={root} mqtt={value.mqtt} secrets={secrets} onDone={back} />;
  const hook = value.webhooks.find((w) => rest[0] === "webhook" && w.id === rest[1]);
  if (rest[0] === "webhook") return <WebhookForm key={rest[1]} root={root} webhook={hook ?? null} secrets={secrets} cameras={cameras} onDone={back} />;
  return (
    <>
      {value.message && <p class="problem">{value.message}</p>}
      <section class="card" aria-labelledby="mqtt-title">
        <div class="card-head">
          <h2 id="mqtt-title">MQTT</h2>
          <a class={value.mqtt === null ? "button primary" : "button"} href={href("settings", "outputs", "mqtt")}>
            {value.mqtt === null ? "Set up the broker" : "Change the broker"}
          </a>
        </div>
        {value.mqtt === null ? (
          <Empty title="No broker">States of cameras, objects and alarms can go to an MQTT broker; Home Assistant finds them there by itself.</Empty>
        ) : (
          <>
            <p>
              <b>
                {value.mqtt.host}:{value.mqtt.port}
              </b>
              {value.mqtt.tls && <span class="quiet"> with TLS</span>} <StateBadge output={value.mqtt} />
            </p>
            <StateWords state={value.mqtt.state} enabled={value.mqtt.enabled} />
            <TestButton path="/outputs/mqtt/test" what="broker" disabled={false} />
          </>
        )}
      </section>
      <section class="card" aria-labelledby="webhooks-title">
        <div class="card-head">
          <h2 id="webhooks-title">Webhooks</h2>
          <a class="button primary" href={href("settings", "outputs", "webhook", "new")}>
            Add a webhook
          </a>
        </div>
        {value.webhooks.length === 0 ? (
          <Empty title="No webhook yet">A webhook gets alarms, objects, or counts, as signed HTTP requests.</Empty>
        ) : (
          <ul class="outputs">
            {value.webhooks.map((w) => (
              <WebhookRow key={w.id} webhook={w} onRemoved={again} />
            ))}
          </ul>
        )}
      </section>
      <DeadLetters count={value.webhooks.reduce((sum, w) => sum + w.state.dead, value.mqtt?.state.dead ?? 0)} />
    </>
  );
}

function StateBadge({ output }: { output: MqttAnswer | WebhookAnswer }) {
  if (!output.enabled) return <Badge tone="off">Off</Badge>;
  return output.state.connected ? <Badge tone="good">Connected</Badge> : <Badge tone="bad">Not connected</Badge>;
}

function StateWords({ state, enabled }: { state: OutputState; enabled: boolean }) {
  return (
    <>
      {enabled && state.message && <p class={state.connected ? "quiet" : "problem"}>{state.message}</p>}
      <p class="quiet">
        {state.sent.toLocaleString()} sent, {state.waiting.toLocaleString()} waiting
        {state.waiting > 0 && ` (${bytes(state.waiting_bytes)})`}
        {state.dead > 0 && `, ${state.dead.toLocaleString()} given up`}
        {state.lost > 0 && <b>, {state.lost.toLocaleString()} lost</b>}
        {state.down_s !== null && state.down_s > 0 && `; away for ${duration(state.down_s)}`}
      </p>
    </>
  );
}

/** Tries an output, with settings that are not kept if there are any. */
function TestButton({ path, what, disabled, body }: { path: string; what: string; disabled: boolean; body?: () => Json }) {
  const [tested, setTested] = useState<OutputTest | null>(null);
  const [busy, setBusy] = useState(false);
  const test = async (): Promise<void> => {
    setBusy(true);
    setTested(null);
    try {
      setTested(await ask<OutputTest>(path, "POST", body?.() ?? {}, TEST_MS));
    } catch (error) {
      setTested({ ok: false, message: words(error), took_s: null });
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="test">
      <button type="button" disabled={busy || disabled} onClick={() => void test()}>
        {busy ? "Testing…" : `Test the ${what}`}
      </button>
      <span role="status">
        {tested && (
          <>
            <Badge tone={tested.ok ? "good" : "bad"}>{tested.ok ? "Works" : "Does not work"}</Badge> {tested.message}
            {(tested.took_s ?? 0) > 0 && <span class="quiet"> ({duration(tested.took_s ?? 0)})</span>}
          </>
        )}
      </span>
    </div>
  );
}

function WebhookRow({ webhook, onRemoved }: { webhook: WebhookAnswer; onRemoved: () => void }) {
  const [removing, setRemoving] = useState(false);
  return (
    <li>
      <div class="output-head">
        <h3>{webhook.id}</h3>
        <StateBadge output={webhook} />
        <span class="row-actions">
          <a class="button" href={href("settings", "outputs", "webhook", webhook.id)} aria-label={`Change the webhook ${webhook.id}`}>
            Change
          </a>
          <button type="button" aria-label={`Remove the webhook ${webhook.id}`} onClick={() => setRemoving(true)}>
            Remove
          </button>
        </span>
      </div>
      <p class="break">
        {webhook.url} <span class="quiet">gets {webhook.kinds.map((k) => `${k}s`).join(" and ")}</span>
      </p>
      <StateWords state={webhook.state} enabled={webhook.enabled} />
      <TestButton path={`/outputs/webhooks/${encodeURIComponent(webhook.id)}/test`} what={`webhook ${webhook.id}`} disabled={false} />
      {removing && (
        <Confirm
          title={`Remove the webhook ${webhook.id}?`}
          action="Remove"
          danger
          onClose={() => setRemoving(false)}
          onConfirm={async () => {
            await ask(`/outputs/webhooks/${encodeURIComponent(webhook.id)}`, "DELETE");
            toast(`Webhook ${webhook.id} removed`);
            onRemoved();
          }}
        >
          <p>Messages that wait for it or were given up are deleted, too. To pause it, switch it off instead.</p>
        </Confirm>
      )}
    </li>
  );
}

function Buttons({ form, isNew, what }: { form: Form; isNew: boolean; what: string }) {
  return (
    <div class="actions">
      <button class="primary" type="submit" disabled={form.busy || (!isNew && !form.dirty)}>
        {form.busy ? "Saving…" : what}
      </button>
      <a class="button" href={href("settings", "outputs")}>
        Cancel
      </a>
    </div>
  );
}

function MqttForm({ root, mqtt, secrets, onDone }: { root: Schema; mqtt: MqttAnswer | null; secrets: string[]; onDone: () => void }) {
  const [first] = useState<Json>(() => (mqtt === null ? { ...defaultsOf(root, "MqttSettings"), host: "" } : settingsOf(mqtt)));
  const form = useForm("mqtt", first);
  const [removing, setRemoving] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await form.save((draft, patch) => ask<unknown>("/outputs/mqtt", "PATCH", mqtt === null ? draft : patch));
    if (answer === undefined) return;
    toast("Broker saved");
    onDone();
  };
  return (
    <section class="card" aria-labelledby="broker-title">
      <div class="card-head">
        <h2 id="broker-title">MQTT broker</h2>
        <a href={href("settings", "outputs")}>All outputs</a>
      </div>
      <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
        <SchemaFields root={root} model="MqttSettings" form={form} groups={mqttGroups(secrets)} />
        <TestButton path="/outputs/mqtt/test" what="broker" disabled={form.draft["host"] === ""} body={() => form.draft} />
        <Buttons form={form} isNew={mqtt === null} what="Save" />
      </form>
      {mqtt !== null && (
        <p class="remove">
          <button type="button" class="danger" onClick={() => setRemoving(true)}>
            Remove the broker
          </button>
        </p>
      )}
      {removing && (
        <Confirm
          title="Remove the broker?"
          action="Remove"
          danger
          onClose={() => setRemoving(false)}
          onConfirm={async () => {
            await ask("/outputs/mqtt", "DELETE");
            toast("Broker removed");
            onDone();
          }}
        >
          <p>Messages that wait for it are deleted, and its settings are forgotten.</p>
        </Confirm>
      )}
    </section>
  );
}

interface WebhookFormProps {
  root: Schema;
  webhook: WebhookAnswer | null;
  secrets: string[];
  cameras: { id: string; name: string }[];
  onDone: () => void;
}

function WebhookForm({ root, webhook, secrets, cameras, onDone }: WebhookFormProps) {
  const [first] = useState<Json>(() => (webhook === null ? { ...defaultsOf(root, "WebhookSettings"), id: "", url: "" } : settingsOf(webhook)));
  const form = useForm("webhook", first);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await form.save((draft, patch) =>
      webhook === null ? ask<unknown>("/outputs/webhooks", "POST", draft) : ask<unknown>(`/outputs/webhooks/${encodeURIComponent(webhook.id)}`, "PATCH", patch),
    );
    if (answer === undefined) return;
    toast("Webhook saved");
    onDone();
  };
  return (
    <section class="card" aria-labelledby="webhook-title">
      <div class="card-head">
        <h2 id="webhook-title">{webhook === null ? "Add a webhook" : `Webhook ${webhook.id}`}</h2>
        <a href={href("settings", "outputs")}>All outputs</a>
      </div>
      <form ref={form.place} class="schema-form" onSubmit={(e) => void submit(e)} noValidate autoComplete="off">
        <SchemaFields root={root} model="WebhookSettings" form={form} groups={webhookGroups(secrets, cameras, webhook === null)} />
        <Buttons form={form} isNew={webhook === null} what={webhook === null ? "Add the webhook" : "Save"} />
      </form>
    </section>
  );
}

function DeadLetters({ count }: { count: number }) {
  const found = usePaged<DeadLetterAnswer>("/outputs/dead-letters", 50, count);
  const [deleting, setDeleting] = useState<DeadLetterAnswer | null>(null);
  const retry = async (letter: DeadLetterAnswer): Promise<void> => {
    try {
      await ask(`/outputs/dead-letters/${letter.id}/retry`, "POST", {});
      toast("It is sent again");
      found.again();
    } catch (error) {
      toast(`Not sent again: ${words(error)}`, "bad");
    }
  };
  return (
    <section class="card" aria-labelledby="dead-title">
      <div class="card-head">
        <h2 id="dead-title">Given up</h2>
      </div>
      <p class="quiet lead">Messages that a receiver refused, or did not take in all its tries.</p>
      {found.error !== null && <ErrorBox what="These messages could not be loaded" error={found.error} onRetry={found.again} />}
      {found.rows === null && found.error === null && <Loading />}
      {found.rows?.length === 0 && <p>None.</p>}
      {found.rows !== null && found.rows.length > 0 && (
        <ul class="outputs">
          {found.rows.map((l) => (
            <DeadLetter key={l.id} letter={l} onRetry={() => void retry(l)} onDelete={() => setDeleting(l)} />
          ))}
        </ul>
      )}
      <Older of={found} words="Older ones" />
      {deleting && (
        <Confirm
          title="Delete this message?"
          action="Delete"
          danger
          onClose={() => setDeleting(null)}
          onConfirm={async () => {
            await ask(`/outputs/dead-letters/${deleting.id}`, "DELETE");
            toast("Message deleted");
            found.again();
          }}
        >
          <p>{deleting.destination} never gets it. This cannot be undone.</p>
        </Confirm>
      )}
    </section>
  );
}

function DeadLetter({ letter, onRetry, onDelete }: { letter: DeadLetterAnswer; onRetry: () => void; onDelete: () => void }) {
  return (
    <li>
      <div class="output-head">
        <h3>
          {letter.kind} for {letter.destination}
        </h3>
        <span class="row-actions">
          <button type="button" onClick={onRetry}>
            <span>
              Send again <span class="hidden">message {letter.id}</span>
            </span>
          </button>
          <button type="button" aria-label={`Delete message ${letter.id}`} onClick={onDelete}>
            Delete
          </button>
        </span>
      </div>
      <p class="problem">{letter.reason}</p>
      <p class="quiet">
        Of {moment(letter.utc_s)}, given up {moment(letter.died_utc_s)} after {letter.tries} {letter.tries === 1 ? "try" : "tries"}
        {letter.camera !== null && `; camera ${letter.camera}`}
      </p>
      <details>
        <summary>Message</summary>
        <pre class="value">{JSON.stringify(letter.body, null, 1)}</pre>
      </details>
    </li>
  );
}
