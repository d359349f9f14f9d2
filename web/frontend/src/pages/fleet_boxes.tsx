/** How the boxes of the fleet are, as each reports itself: version, the shares of its device, who lends to whom. */

import type { AskedBoxAnswer, BoxNowAnswer, DeviceShareAnswer, FleetBoxesAnswer, FleetBoxNowAnswer } from "../answers";
import { duration, percent } from "../format";
import { AskedBoxes } from "../parts/asked_boxes";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { cameraColour } from "../parts/colours";
import type { DevicePart } from "../parts/device_bar";
import { DeviceBar, PARTS } from "../parts/device_bar";
import { ENFORCED, unitsOf } from "../parts/shares";
import { ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";

const EVERY_S = 5;
/** The work of a box for another one's camera. */
const WORKS = { retraining: "trains", profiles: "tries configurations of", labels: "labels pictures of" } as const;
const PHASES = {
  asked: "asked for",
  fetching: "copies its pictures, or has other work first",
  running: "runs",
  done: "judged here",
  failed: "failed",
};

export function FleetBoxesNow() {
  const asked = useAsked<FleetBoxesAnswer>("/fleet/boxes", null, EVERY_S);
  const answer = asked.value;
  return (
    <section class="card" aria-labelledby="boxes-now-title">
      <h2 id="boxes-now-title">Devices, shares and lending</h2>
      {answer === null && asked.error === null && <Loading what="Asking the boxes" />}
      {answer === null && asked.error !== null && <ErrorBox what="The boxes could not be asked" error={asked.error} onRetry={asked.again} />}
      {answer !== null && (
        <>
          <AskedBoxes boxes={[...answer.boxes]} />
          <Devices answer={answer} />
          <h3>Who lends to whom</h3>
          <WhoLends answer={answer} />
        </>
      )}
    </section>
  );
}

function Devices({ answer }: { answer: FleetBoxesAnswer }) {
  const mine = answer.rows.find((r) => r.box === answer.me)?.now.version;
  return (
    <Table
      caption="The boxes that answered"
      rows={[...answer.rows]}
      rowKey={(r: FleetBoxNowAnswer) => r.box}
      columns={[
        {
          key: "box",
          title: "Box",
          cell: (r) => (
            <>
              <Named box={r.box} asked={answer.boxes} />{" "}
              {!r.now.ready && <Badge tone="bad">Not ready</Badge>}
            </>
          ),
        },
        {
          key: "version",
          title: "Version",
          cell: (r) => (
            <div>
              {r.now.version}{" "}
              {mine !== undefined && r.now.version !== mine && <Badge tone="wait">Not as here</Badge>}
              <span class="quiet under">up {duration(r.now.uptime_s)}</span>
            </div>
          ),
        },
        {
          key: "device",
          title: "Device",
          cell: (r) => (
            <div>
              {unitsOf(r.now)}
              <span class="quiet under">
                {r.now.kind}, {ENFORCED[r.now.enforced] ?? r.now.enforced}
              </span>
            </div>
          ),
        },
        { key: "shares", title: "Shares", cell: (r) => <Shares now={r.now} /> },
        { key: "lends", title: "Lends", cell: (r) => lends(r.now) },
      ]}
    />
  );
}

function Named({ box, asked }: { box: string; asked: readonly AskedBoxAnswer[] }) {
  const page = asked.find((b) => b.box === box)?.page ?? "";
  return page === "" ? <>{box}</> : <a href={page}>{box}</a>;
}

function Shares({ now }: { now: BoxNowAnswer }) {
  const cameras = [...new Set(now.shares.map((s) => s.camera).filter((c) => c !== null))];
  const parts: DevicePart[] = now.shares.map((s) => {
    const { name, colour, training } = PARTS[s.part];
    const ofCamera = s.part === "inference" || s.part === "retraining";
    return {
      key: `${s.part} ${s.camera ?? ""}`,
      name: s.camera !== null ? `${s.camera}: ${name.toLowerCase()}` : ofCamera ? `Other cameras: ${name.toLowerCase()}` : name,
      share: s.share,
      colour: s.camera !== null ? cameraColour(cameras.indexOf(s.camera)) : ofCamera ? "var(--quiet)" : colour,
      training,
    };
  });
  const sums = (Object.keys(PARTS) as DeviceShareAnswer["part"][])
    .map((part) => ({ part, share: now.shares.reduce((total, s) => total + (s.part === part ? s.share : 0), 0) }))
    .filter((s) => s.share > 0);
  const sum = sums.reduce((total, s) => total + s.share, 0);
  return (
    <div class="box-shares">
      <DeviceBar parts={parts} />
      <span class="quiet under">
        {sums.map((s) => `${PARTS[s.part].name} ${percent(s.share)}`).join(", ")}
        {sums.length > 0 && ", "}
        {sum > 1.005 ? `asked beyond the device ${percent(sum - 1)}` : `free ${percent(Math.max(0, 1 - sum))}`}
      </span>
    </div>
  );
}

function lends({ lending }: BoxNowAnswer): string {
  if (!lending.lend) return lending.borrow ? "No; it borrows" : "No, and borrows nothing";
  return `${percent(lending.offered_share)} now, at most ${percent(lending.most_share)}${lending.borrow ? "; it borrows, too" : ""}`;
}

/** A work is told by its lender; by its borrower where the lender did not answer, or does not know of it yet. */
function WhoLends({ answer }: { answer: FleetBoxesAnswer }) {
  const here = answer.rows.flatMap((r) => r.now.lending.here.map((work) => ({ lender: r.box, work })));
  const there = answer.rows
    .flatMap((r) => r.now.lending.there.map((work) => ({ borrower: r.box, work })))
    .filter(
      ({ borrower, work }) =>
        !here.some((h) => h.lender === work.box && h.work.box === borrower && h.work.camera === work.camera && h.work.kind === work.kind),
    );
  if (here.length === 0 && there.length === 0) return <p class="quiet">No box works for another one now.</p>;
  return (
    <ul>
      {here.map(({ lender, work }) => (
        <li key={`${lender} ${work.box} ${work.camera} ${work.kind}`}>
          {lender} {WORKS[work.kind]} {work.camera} of {work.box} on {percent(work.share)} of its device
          {work.kind === "profiles" ? "" : `: ${percent(work.fraction)} done`}
        </li>
      ))}
      {there.map(({ borrower, work }, n) => (
        <li key={`${borrower} ${work.box} ${work.camera} ${work.kind} ${n}`}>
          {work.box} {WORKS[work.kind]} {work.camera} of {borrower}: {PHASES[work.phase]}
          {work.kind === "profiles" ? "" : `, ${percent(work.fraction)} done`}
        </li>
      ))}
    </ul>
  );
}
