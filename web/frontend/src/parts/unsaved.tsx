/** Asks before a page is left on which something was typed and not saved. */

import { useEffect, useRef, useState } from "preact/hooks";

import { addGuard, parseRoute } from "../router";
import { Confirm } from "./dialog";

/** The part of an address that says which form is shown. */
function place(url: string): string {
  const { page, rest, query } = parseRoute(new URL(url).hash);
  return JSON.stringify([page, rest, query.get("tab")]);
}

export function Unsaved({ when }: { when: boolean }) {
  const [wanted, setWanted] = useState<string | null>(null);
  const unsaved = useRef(when);
  unsaved.current = when;
  const leaving = useRef(false);

  useEffect(() => {
    const forget = addGuard((event) => {
      if (!unsaved.current || leaving.current || place(event.oldURL) === place(event.newURL)) return false;
      history.replaceState(null, "", event.oldURL);
      setWanted(new URL(event.newURL).hash);
      return true;
    });
    const close = (event: BeforeUnloadEvent): void => {
      if (unsaved.current) event.preventDefault();
    };
    addEventListener("beforeunload", close);
    return () => {
      forget();
      removeEventListener("beforeunload", close);
    };
  }, []);

  if (wanted === null) return null;
  return (
    <Confirm
      title="Leave without saving?"
      action="Leave"
      danger
      onClose={() => setWanted(null)}
      onConfirm={async () => {
        leaving.current = true;
        location.hash = wanted;
      }}
    >
      <p>Your changes here are not saved yet.</p>
    </Confirm>
  );
}
