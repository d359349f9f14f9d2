/** Orders to the fleet: each is asked about first, and the fleet's answer is shown. */

import { useState } from "preact/hooks";

import type { FleetAnswer, FleetBoxAnswer, FleetCameraAnswer, FleetOrderAnswer } from "../answers";
import type { Me } from "../api";
import { ask } from "../api";
import { Confirm, Dialog } from "../parts/dialog";
import { toast } from "../parts/toasts";
import { may, seesAll } from "../session";

/** The head asks boxes for their admission before it answers. */
const ORDER_MS = 35000;

/** Whether `me` may give orders. */
export function mayOrder(me: Me): boolean {
  return may(me, "admin") && seesAll(me);
}

function give(order: { kind: FleetOrderAnswer["kind"]; box?: string; camera?: string }): Promise<FleetOrderAnswer> {
  return ask<FleetOrderAnswer>("/fleet/orders", "POST", order, ORDER_MS);
}

function moves(answer: FleetOrderAnswer): string {
  return answer.cameras.length === 0 ? "" : `: ${answer.cameras.join(", ")} ${answer.cameras.length === 1 ? "goes" : "go"} to other boxes`;
}

interface BoxProps {
  fleet: FleetAnswer;
  box: FleetBoxAnswer;
  again: () => void;
}

/** The orders about one box. */
export function BoxOrders({ fleet, box, again }: BoxProps) {
  const [asked, setAsked] = useState<"drain" | "revoke" | null>(null);
  const undrain = async (): Promise<void> => {
    try {
      await give({ kind: "undrain", box: box.name });
      toast(`${box.name} takes cameras again`);
      again();
    } catch (error) {
      toast(`${box.name} stays drained: ${error instanceof Error ? error.message : String(error)}`, "bad");
    }
  };
  return (
    <span class="orders">
      {box.drained ? (
        <button type="button" aria-label={`Undrain ${box.name}`} onClick={() => void undrain()}>
          Undrain
        </button>
      ) : (
        <button type="button" aria-label={`Drain ${box.name}`} onClick={() => setAsked("drain")}>
          Drain
        </button>
      )}
      {!box.head && (
        <button type="button" aria-label={`Put out ${box.name}`} onClick={() => setAsked("revoke")}>
          Put out
        </button>
      )}
      {asked === "drain" && <DrainDialog box={box} again={again} onClose={() => setAsked(null)} />}
      {asked === "revoke" && <RevokeDialog fleet={fleet} box={box} again={again} onClose={() => setAsked(null)} />}
    </span>
  );
}

interface DialogProps extends BoxProps {
  onClose: () => void;
}

function DrainDialog({ box, again, onClose }: Omit<DialogProps, "fleet">) {
  return (
    <Confirm
      title={`Drain ${box.name}?`}
      action="Drain"
      onClose={onClose}
      onConfirm={async () => {
        const answer = await give({ kind: "drain", box: box.name });
        toast(`${box.name} is drained${moves(answer)}`);
        again();
      }}
    >
      <p>
        Its {box.cameras} {box.cameras === 1 ? "camera goes" : "cameras go"} to other boxes, one at a time, and it takes none until it is
        undrained. Cameras that fit nowhere stay.
      </p>
    </Confirm>
  );
}

function RevokeDialog({ fleet, box, again, onClose }: DialogProps) {
  return (
    <Confirm
      title={`Put ${box.name} out of the fleet?`}
      action="Put out"
      danger
      onClose={onClose}
      onConfirm={async () => {
        const answer = await give({ kind: "revoke", box: box.name });
        toast(`${box.name} is put out${moves(answer)}`);
        again();
      }}
    >
      <p>
        Its key is refused from now on, and other boxes answer its {box.cameras === 1 ? "camera" : "cameras"}. This cannot be undone: the
        box comes back only by joining again.
        {box.name === fleet.me && " This is the box whose page you see."}
      </p>
    </Confirm>
  );
}

interface CameraProps {
  fleet: FleetAnswer;
  camera: FleetCameraAnswer;
  again: () => void;
}

/** Moving one camera. */
export function MoveCamera({ fleet, camera, again }: CameraProps) {
  const others = fleet.boxes.filter((b) => b.name !== camera.owner && !b.drained);
  const [open, setOpen] = useState(false);
  const [box, setBox] = useState("");
  if (others.length === 0 || !camera.answered) return null;
  const target = others.some((b) => b.name === box) ? box : (others[0]?.name ?? "");
  return (
    <span class="orders">
      <button type="button" aria-label={`Move ${camera.camera}`} onClick={() => setOpen(true)}>
        Move
      </button>
      {open && (
        <Confirm
          title={`Move ${camera.camera}?`}
          action="Move"
          onClose={() => setOpen(false)}
          onConfirm={async () => {
            await give({ kind: "move", camera: camera.camera, box: target });
            toast(`${camera.camera} is on its way to ${target}`);
            again();
          }}
        >
          <p>It starts on its new box before it stops on {camera.owner}. Labels and pictures stay there.</p>
          <label class="move-to">
            To{" "}
            <select value={target} onChange={(e) => setBox(e.currentTarget.value)}>
              {others.map((b) => (
                <option key={b.name} value={b.name}>
                  {b.name}
                </option>
              ))}
            </select>
          </label>
        </Confirm>
      )}
    </span>
  );
}

/** A join code for another box. */
export function Invite() {
  const [asked, setAsked] = useState(false);
  const [made, setMade] = useState<FleetOrderAnswer | null>(null);
  return (
    <>
      <button type="button" onClick={() => setAsked(true)}>
        Invite a box
      </button>
      {asked && (
        <Confirm
          title="Make a join code?"
          action="Make it"
          onClose={() => setAsked(false)}
          onConfirm={async () => setMade(await give({ kind: "invite" }))}
        >
          <p>A box that has the code may join the fleet. It is used once, and good for 24 hours.</p>
        </Confirm>
      )}
      {made !== null && !asked && (
        <Dialog title="The join code" onClose={() => setMade(null)}>
          <p>It is shown this once. On the new box:</p>
          <pre class="join-code">{`magpie fleet join site.yaml ${made.address ?? ""} --code ${made.code ?? ""}`}</pre>
          <div class="actions end">
            <button type="button" onClick={() => setMade(null)}>
              Done
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}
