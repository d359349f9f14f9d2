/** The fields of "Would it fit?": the kind, one set of fields for each kind, and how all is planned. */

import type { Overview, Problem } from "../api";
import { Field, SelectField, TextField } from "../parts/form";
import { optionsOf } from "../parts/options";
import type { Option } from "../parts/schema_form";
import type { ServedModel } from "../parts/served";
import { SPLIT_POLICIES } from "../parts/served";
import type { Draft, Kind, Put } from "./serving_admission_draft";

const CALLED = { model: "A model", pipeline: "An application", camera: "A camera" };
const AS_NOW = { value: "", label: "As now" };

interface KindProps {
  kind: Kind;
  applications: string[];
  onChoose: (kind: Kind) => void;
}

export function KindChoice({ kind, applications, onChoose }: KindProps) {
  return (
    <fieldset class="kinds">
      <legend class="hidden">What to add</legend>
      {(["model", ...(applications.length > 0 ? (["pipeline"] as const) : []), "camera"] as const).map((k) => (
        <label key={k}>
          <input type="radio" name="admission-kind" checked={kind === k} onChange={() => onChoose(k)} />
          {CALLED[k]}
        </label>
      ))}
    </fieldset>
  );
}

interface FieldsProps {
  draft: Draft;
  put: Put;
  problems: Problem[];
}

function ModelName({ draft: { model }, put, problems, models }: FieldsProps & { models: ServedModel[] }) {
  return (
    <>
      <Field
        label="Model"
        path="model.name"
        problems={problems}
        hint="One whose latencies are known, or with a table below. One that is served is asked for anew."
      >
        {(tied) => (
          <input
            type="text"
            {...tied}
            list="admission-models"
            autocomplete="off"
            required
            value={model.name}
            onInput={(e) => put({ model: { ...model, name: e.currentTarget.value } })}
          />
        )}
      </Field>
      <datalist id="admission-models">
        {models.map((m) => (
          <option key={m.name} value={m.name} />
        ))}
      </datalist>
    </>
  );
}

interface ModelFieldsProps extends FieldsProps {
  models: ServedModel[];
  /** Gets the input of the file with the model's latencies. */
  onFile: (input: HTMLInputElement) => Promise<void>;
}

export function ModelFields({ models, onFile, ...fields }: ModelFieldsProps) {
  const { draft, put, problems } = fields;
  const { model } = draft;
  return (
    <>
      <ModelName {...fields} models={models} />
      <TextField
        label="Rate"
        path="model.rate"
        problems={problems}
        value={model.rate}
        onChange={(rate) => put({ model: { ...model, rate } })}
        unit="requests/s"
        input={{ inputMode: "decimal", autocomplete: "off", required: true }}
      />
      <TextField
        label="Objective"
        path="model.slo_ms"
        problems={problems}
        value={model.slo_ms}
        onChange={(slo_ms) => put({ model: { ...model, slo_ms } })}
        unit="ms"
        input={{ inputMode: "decimal", autocomplete: "off", required: true }}
      />
      <TextField
        label="Priority of the model"
        path="model.priority"
        problems={problems}
        value={model.priority}
        onChange={(priority) => put({ model: { ...model, priority } })}
        hint="When not all fits, the lowest yields first."
        input={{ inputMode: "numeric", autocomplete: "off" }}
      />
      <div class="field">
        <label for="admission-table">Latencies</label>
        <span class="input">
          <input id="admission-table" type="file" accept=".json,application/json" onChange={(e) => void onFile(e.currentTarget)} />
        </span>
        <p class="hint">Only where the appliance has none: the file that magpie profile wrote on this box.</p>
      </div>
    </>
  );
}

export function ApplicationFields({ draft: { pipeline }, put, problems, applications }: FieldsProps & { applications: string[] }) {
  return (
    <>
      <SelectField
        label="Application"
        path="pipeline.name"
        problems={problems}
        value={pipeline.name || (applications[0] ?? "")}
        onChange={(name) => put({ pipeline: { ...pipeline, name } })}
        options={applications.map((name) => ({ value: name, label: name }))}
        hint="One that is served; magpie admit --pipeline asks about others."
      />
      <TextField
        label="Rate"
        path="pipeline.rate"
        problems={problems}
        value={pipeline.rate}
        onChange={(rate) => put({ pipeline: { ...pipeline, rate } })}
        unit="requests/s"
        hint="Empty: as planned now."
        input={{ inputMode: "decimal", autocomplete: "off" }}
      />
      <TextField
        label="Objective"
        path="pipeline.slo_ms"
        problems={problems}
        value={pipeline.slo_ms}
        onChange={(slo_ms) => put({ pipeline: { ...pipeline, slo_ms } })}
        unit="ms"
        hint="Empty: its own."
        input={{ inputMode: "decimal", autocomplete: "off" }}
      />
    </>
  );
}

export function CameraFields({ draft: { camera }, put, problems, cameras }: FieldsProps & Pick<Overview, "cameras">) {
  return (
    <>
      <TextField
        label="Camera"
        path="camera.id"
        problems={problems}
        value={camera.id}
        onChange={(id) => put({ camera: { ...camera, id } })}
        hint="The id that it would have."
        input={{ autocomplete: "off", required: true }}
      />
      <SelectField
        label="Like"
        path="camera.like"
        problems={problems}
        value={camera.like}
        onChange={(like) => put({ camera: { ...camera, like } })}
        options={[
          { value: "", label: cameras.length > 0 ? "An average camera" : "No other camera is there" },
          ...cameras.map((c) => ({ value: c.id, label: c.name })),
        ]}
        hint="Whose costs and gains are taken for it."
      />
      {cameras.length === 0 && (
        <TextField
          label="Accuracy of its first model"
          path="camera.accuracy"
          problems={problems}
          value={camera.accuracy}
          onChange={(accuracy) => put({ camera: { ...camera, accuracy } })}
          hint="From 0 to 1; empty: 0.5."
          input={{ inputMode: "decimal", autocomplete: "off" }}
        />
      )}
    </>
  );
}

export function PlannedFields({ draft: { planned }, put, problems, policies }: FieldsProps & { policies: Option[] }) {
  return (
    <>
      <SelectField
        label="Served models planned by"
        path="policy"
        problems={problems}
        value={planned.policy}
        onChange={(policy) => put({ planned: { ...planned, policy } })}
        options={[AS_NOW, ...policies]}
        hint="Another policy: what it would bring, beside what is in force now."
      />
      <SelectField
        label="Objectives of applications"
        path="split"
        problems={problems}
        value={planned.split}
        onChange={(split) => put({ planned: { ...planned, split } })}
        options={[AS_NOW, ...optionsOf(SPLIT_POLICIES)]}
      />
    </>
  );
}
