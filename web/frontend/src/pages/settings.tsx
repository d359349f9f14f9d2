/** Settings: cameras, retraining windows, rules, who may do what, where alarms go, secrets, and who changed what. */

import type { FunctionComponent } from "preact";

import type { Me, Role } from "../api";
import { useAsked } from "../parts/asking";
import type { Schema } from "../parts/schema_form";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { href, useRoute } from "../router";
import { may, seesAll, whyNot } from "../session";
import "../styles/settings.css";
import type { PageProps, SectionProps } from "./page";
import { AuditSection } from "./settings_audit";
import { CamerasSection } from "./settings_cameras";
import { OutputsSection } from "./settings_outputs";
import { RetrainingSection } from "./settings_retraining";
import { RulesSection } from "./settings_rules";
import { SecretsSection } from "./settings_secrets";
import { TokensSection } from "./settings_tokens";
import { UsersSection } from "./settings_users";

interface Section {
  name: string;
  title: string;
  /** The role that may see it at all. */
  least: Role;
  /** It concerns every camera: not for those who may see some only. */
  everyCamera?: boolean;
  Part: FunctionComponent<SectionProps>;
}

const SECTIONS: Section[] = [
  { name: "cameras", title: "Cameras", least: "viewer", Part: CamerasSection },
  { name: "retraining", title: "Retraining windows", least: "viewer", Part: RetrainingSection },
  { name: "rules", title: "Rules", least: "viewer", Part: RulesSection },
  { name: "outputs", title: "Outputs", least: "admin", everyCamera: true, Part: OutputsSection },
  { name: "users", title: "Users", least: "admin", everyCamera: true, Part: UsersSection },
  { name: "tokens", title: "Tokens and sessions", least: "viewer", Part: TokensSection },
  { name: "secrets", title: "Secrets", least: "admin", everyCamera: true, Part: SecretsSection },
  { name: "audit", title: "Audit log", least: "admin", everyCamera: true, Part: AuditSection },
];

function allowed(me: Me, section: Section): boolean {
  return may(me, section.least) && (section.everyCamera !== true || seesAll(me));
}

export function SettingsPage({ known, me, now_s }: PageProps) {
  const route = useRoute();
  const [name = "cameras", ...rest] = route.rest;
  const section = SECTIONS.find((s) => s.name === name);
  const schema = useAsked<Schema>("/schema/site");
  return (
    <>
      <div class="page-head">
        <h1>Settings</h1>
      </div>
      <div class="settings">
        <nav class="sections" aria-label="Settings">
          {SECTIONS.filter((s) => allowed(me, s)).map((s) => (
            <a key={s.name} href={href("settings", s.name)} aria-current={s.name === name ? "page" : undefined}>
              {s.title}
            </a>
          ))}
        </nav>
        <div class="section">
          {section === undefined ? (
            <Empty title="There is no such section" level={2} action={<a href={href("settings")}>To the settings</a>} />
          ) : !allowed(me, section) ? (
            <Empty title={section.title} level={2}>
              {whyNot(section.least)}
              {!seesAll(me) && " It concerns every camera."}
            </Empty>
          ) : schema.value === null ? (
            schema.error === null ? (
              <Loading />
            ) : (
              <ErrorBox what="The settings could not be loaded" error={schema.error} onRetry={schema.again} />
            )
          ) : (
            <section.Part key={section.name} root={schema.value} known={known} me={me} now_s={now_s} rest={rest} />
          )}
        </div>
      </div>
    </>
  );
}
