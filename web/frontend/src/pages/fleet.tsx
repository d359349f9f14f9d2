/** The boxes of the fleet, the one that decides, and who answers which camera. */

import type { FleetAnswer, FleetBoxAnswer, FleetCameraAnswer, GroupCameraAnswer } from "../answers";
import { counted, moment, percent } from "../format";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { go, href, useRoute } from "../router";
import { seesAll } from "../session";
import "../styles/fleet.css";
import { FleetBoxesNow } from "./fleet_boxes";
import { FleetJobs } from "./fleet_jobs";
import { BoxOrders, Invite, MoveCamera, mayOrder } from "./fleet_orders";
import { FleetAudit, FleetSearch } from "./fleet_search";
import { FleetWall } from "./fleet_wall";
import type { PageProps } from "./page";

const EVERY_S = 2;
const STATUS = { open: "There", silent: "Not heard", lost: "Lost" };
const TONE = { open: "good", silent: "wait", lost: "bad" } as const;
const UNPLACED = {
  no_box: "every other box is away",
  no_zone: "no box that is there reaches its zone",
  drained: "the boxes that reach it are drained",
  full: "no box admits it",
  refused: "the boxes that reach it could not start it",
};
const REFUSED: Record<string, string> = {
  stranger: "a certificate of another authority",
  no_key: "no certificate",
  revoked: "a box that was put out",
  no_member: "a box that is no member",
  wrong_box: "a message that speaks for another box",
  bad_code: "an unknown join code",
  used_code: "a join code that was used",
  old_code: "a join code that ended",
  no_tls: "no TLS",
  too_slow: "no TLS within some seconds",
  too_many: "too many connections without a certificate at once",
  other_version: "a message of a box whose version is too far from this one's",
};

interface PartProps {
  fleet: FleetAnswer;
  /** Whether the reader may give orders. */
  orders: boolean;
  again: () => void;
}

function Boxes({ fleet, orders, again }: PartProps) {
  return (
    <section class="card" aria-labelledby="boxes-title">
      <div class="card-head">
        <h2 id="boxes-title">Boxes</h2>
        {orders && <Invite />}
      </div>
      <Table
        caption="The boxes of the fleet"
        rows={fleet.boxes}
        rowKey={(b: FleetBoxAnswer) => b.name}
        columns={[
          {
            key: "name",
            title: "Box",
            cell: (b) => (
              <>
                {b.name}
                {b.name === fleet.me && " (this box)"}
                <span class="quiet under">{b.address}</span>
              </>
            ),
          },
          {
            key: "status",
            title: "State",
            cell: (b) => (
              <>
                {b.status === null ? <span class="quiet">Not known</span> : <Badge tone={TONE[b.status]}>{STATUS[b.status]}</Badge>}
                {b.other_version && <span class="under">Its version and this box's are too far apart: upgrade one</span>}
              </>
            ),
          },
          { key: "role", title: "Part", cell: (b) => (b.head ? "Head" : b.decides ? "Standby" : "Member") + (b.drained ? ", drained" : "") },
          { key: "zones", title: "Zones", cell: (b) => (b.zones.length === 0 ? <span class="quiet">–</span> : b.zones.join(", ")) },
          { key: "cameras", title: "Cameras", cell: (b) => b.cameras },
          ...(orders ? [{ key: "orders", title: "Orders", cell: (b: FleetBoxAnswer) => <BoxOrders fleet={fleet} box={b} again={again} /> }] : []),
        ]}
      />
      {fleet.mandate === false && <p role="status">This box is the head, but hears less than half of the boxes: nothing is moved.</p>}
      {fleet.head === null && <p role="status">No head is known now. Every camera is answered by its box; nothing is moved.</p>}
    </section>
  );
}

function stateOf(camera: FleetCameraAnswer): string {
  if (camera.unplaced !== null) return `Not answered: ${UNPLACED[camera.unplaced]}`;
  if (!camera.answered) return camera.previous === null ? "Starts" : `Starts; ${camera.previous} goes on until then`;
  if (camera.waiting !== null) return `Answered; it cannot leave its drained box: ${UNPLACED[camera.waiting]}`;
  return "Answered";
}

function Cameras({ fleet, orders, again }: PartProps) {
  return (
    <section class="card" aria-labelledby="owners-title">
      <h2 id="owners-title">Cameras</h2>
      {fleet.cameras.length === 0 ? (
        <Empty title="No cameras yet">Add one on any box: the fleet takes it up.</Empty>
      ) : (
        <Table
          caption="Who answers which camera"
          rows={fleet.cameras}
          rowKey={(c: FleetCameraAnswer) => c.camera}
          columns={[
            { key: "camera", title: "Camera", cell: (c) => c.camera },
            { key: "owner", title: "Box", cell: (c) => c.owner ?? <span class="quiet">–</span> },
            {
              key: "state",
              title: "State",
              cell: (c) => (
                <>
                  {stateOf(c)}
                  {c.cannot !== "" && <span class="quiet under">This box cannot start it: {c.cannot}</span>}
                </>
              ),
            },
            ...(orders
              ? [{ key: "orders", title: "Orders", cell: (c: FleetCameraAnswer) => <MoveCamera fleet={fleet} camera={c} again={again} /> }]
              : []),
          ]}
        />
      )}
    </section>
  );
}

const FAULTS: Record<string, string> = {
  refused: "refused",
  withdrawn: "given up by a lender that needed its share",
  unreachable: "with a lender that did not answer",
  failed: "failed there",
  damaged: "damaged",
  late: "late",
};
function Lending({ fleet }: { fleet: FleetAnswer }) {
  const lending = fleet.lending;
  const faults = Object.entries(lending.failures);
  return (
    <section class="card" aria-labelledby="lending-title">
      <h2 id="lending-title">Lent and borrowed by this box</h2>
      {!lending.lend && !lending.borrow && <p class="quiet">This box neither lends nor borrows: fleet.lending in the site file.</p>}
      {lending.lend && (
        <p>
          This box offers {percent(lending.offered_share)} of its device now, at most {percent(lending.most_share)}. It did {counted(lending.lent, "retraining")} and
          the trials of {counted(lending.lent_profiles, "camera")} for others, and labelled {lending.lent_labels} of their pictures:{" "}
          {lending.lent_device_s.toFixed(0)} s of its device.
        </p>
      )}
      {lending.borrow && (
        <p>
          Others did {counted(lending.borrowed, "retraining")} and the trials of {counted(lending.borrowed_profiles, "camera")} for this box, and labelled{" "}
          {lending.borrowed_labels} of its pictures: {lending.borrowed_device_s.toFixed(0)} s of its device.
          {faults.length > 0 && ` Did not come back: ${faults.map(([fault, count]) => `${count} ${FAULTS[fault] ?? fault}`).join(", ")}.`}
        </p>
      )}
    </section>
  );
}

const SHARED = {
  shares: "shares pictures",
  off: "shares none: fleet.share_pictures in its site file",
  not_known: "does not know groups over boxes: upgrade it",
  silent: "does not answer",
  failed: "gives no answer that this box understands",
};
const GROUP_FAULTS: Record<string, string> = {
  unreachable: "did not come",
  damaged: "damaged",
  late: "came too late",
};

function BoxGroups({ fleet }: { fleet: FleetAnswer }) {
  const groups = fleet.lending.groups;
  const faults = Object.entries(groups.failures);
  return (
    <section class="card" aria-labelledby="box-groups-title">
      <h2 id="box-groups-title">Cameras retrained as one over boxes</h2>
      {!groups.share && <p class="quiet">This box shares no pictures with others: fleet.share_pictures in the site file.</p>}
      {groups.share && (
        <>
          <p>
            Cameras of other boxes taught in {groups.trained} retrainings of this box. Of students that other boxes trained with
            pictures of this one {groups.taken} came into force here; the gate refused {groups.refused}.
            {faults.length > 0 && ` Lost: ${faults.map(([fault, count]) => `${count} ${GROUP_FAULTS[fault] ?? fault}`).join(", ")}.`}
          </p>
          {groups.cameras.length === 0 ? (
            <p class="quiet">No camera of this box looks like one of another box that shares pictures.</p>
          ) : (
            <Table
              caption="Groups of cameras over boxes"
              rows={[...groups.cameras]}
              rowKey={(c: GroupCameraAnswer) => `${c.group} ${c.box} ${c.camera}`}
              columns={[
                { key: "camera", title: "Camera", cell: (c) => `${c.camera} of ${c.box === fleet.me ? "this box" : c.box}` },
                { key: "trainer", title: "Trained by", cell: (c) => (c.trainer === fleet.me ? "this box" : c.trainer) },
                {
                  key: "pictures",
                  title: "Pictures",
                  cell: (c) => (c.here ? "here" : c.trainer === fleet.me ? "not here yet" : "on its box"),
                },
              ]}
            />
          )}
          <ul>
            {groups.boxes.map((b) => (
              <li key={b.box}>
                {b.box} {SHARED[b.shared]}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Refused({ fleet }: { fleet: FleetAnswer }) {
  const kinds = Object.entries(fleet.refused);
  return (
    <section class="card" aria-labelledby="refused-title">
      <h2 id="refused-title">Refused and doubled</h2>
      {kinds.length === 0 && fleet.overlaps.length === 0 && <p class="quiet">This box refused no connection, and gave no camera up late.</p>}
      {kinds.length > 0 && (
        <ul>
          {kinds.map(([kind, count]) => (
            <li key={kind}>
              Refused {counted(count, "time")}: {REFUSED[kind] ?? kind}
            </li>
          ))}
        </ul>
      )}
      {fleet.overlaps.length > 0 && (
        <ul>
          {fleet.overlaps.map((o) => (
            <li key={`${o.camera} ${o.end_utc_s}`}>
              Two boxes answered {o.camera} from {moment(o.start_utc_s)} to {moment(o.end_utc_s)}: its events of that time may be there twice
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const TABS = [
  { id: "boxes", title: "Boxes" },
  { id: "wall", title: "Wall" },
  { id: "search", title: "Search" },
];
const AUDIT = { id: "audit", title: "Audit log" };

export function FleetPage({ known, me }: PageProps) {
  const asked = useAsked<FleetAnswer>("/fleet", null, EVERY_S);
  const route = useRoute();
  const fleet = asked.value;
  const admin = mayOrder(me);
  const tabs = admin ? [...TABS, AUDIT] : TABS;
  const chosen = tabs.find((t) => t.id === route.rest[0])?.id ?? "boxes";
  return (
    <>
      <div class="page-head">
        <h1>Fleet</h1>
        <p class="quiet">Boxes that know each other: each answers its own cameras, and those of a box that is lost.</p>
      </div>
      {fleet === null && asked.error === null && <Loading what="Loading the fleet" />}
      {fleet === null && asked.error !== null && <ErrorBox what="The fleet could not be loaded" error={asked.error} onRetry={asked.again} />}
      {fleet !== null && !fleet.joined && (
        <Empty title="This box is in no fleet" level={2}>
          {fleet.me === "" ? "The site file has no section fleet." : "magpie fleet start founds a fleet; magpie fleet join joins one."}
        </Empty>
      )}
      {fleet?.joined && !fleet.agent && <p role="alert">The agent of this box does not run. This is as it reported last.</p>}
      {fleet?.joined && (
        <Tabs label="Fleet" tabs={tabs} chosen={chosen} onChoose={(id) => go(id === "boxes" ? href("fleet") : href("fleet", id), true)}>
          {chosen === "boxes" && (
            <>
              <Boxes fleet={fleet} orders={admin} again={asked.again} />
              <FleetBoxesNow />
              <Cameras fleet={fleet} orders={admin} again={asked.again} />
              {seesAll(me) && <FleetJobs />}
              <Lending fleet={fleet} />
              <BoxGroups fleet={fleet} />
              <Refused fleet={fleet} />
            </>
          )}
          {chosen === "wall" && <FleetWall cameras={known.overview?.cameras ?? []} />}
          {chosen === "search" && <FleetSearch fleet={fleet} />}
          {chosen === "audit" && <FleetAudit />}
        </Tabs>
      )}
    </>
  );
}
