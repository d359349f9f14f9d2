/** The properties that every page gets, and every section of the settings. */

import type { Me } from "../api";
import type { Schema } from "../parts/schema_form";
import type { Known } from "../store";

export interface PageProps {
  known: Known;
  me: Me;
  /** Time of now at the appliance, UTC seconds. */
  now_s: number;
}

export interface SectionProps extends PageProps {
  /** The schema that the server checks the site's settings with. */
  root: Schema;
  /** The rest of the address behind the section. */
  rest: string[];
}
