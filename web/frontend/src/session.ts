/** The user who is logged in. */

import { useCallback, useEffect, useState } from "preact/hooks";

import type { SetupAnswer } from "./answers";
import type { Me, Role } from "./api";
import { ApiError, LOGGED_OUT, api, ask } from "./api";

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };
const AGAIN_MS = 2000;

/** Whether `me` may do what needs `role`. */
export function may(me: Me, role: Role): boolean {
  return RANK[me.role] >= RANK[role];
}

/** Whether no camera and no tenant is kept from `me`. */
export function seesAll(me: Me): boolean {
  return me.cameras === null && me.tenants === null;
}

/** Why something is not offered, for people: "Only an administrator may do this." */
export function whyNot(role: Role): string {
  return role === "admin" ? "Only an administrator may do this." : "Only an operator or an administrator may do this.";
}

export type Session =
  | { state: "asking"; me: null }
  | { state: "silent"; me: null }
  | { state: "out"; me: null; setup: boolean }
  | { state: "in"; me: Me };

export interface SessionActions {
  /** Take over what a login or set-up answered. */
  entered: () => Promise<void>;
  logOut: () => Promise<void>;
  /** Ask again who we are. */
  refresh: () => Promise<void>;
}

/** The session of this browser. While the appliance is silent it is asked again every two seconds. */
export function useSession(): [Session, SessionActions] {
  const [session, setSession] = useState<Session>({ state: "asking", me: null });

  const refresh = useCallback(async (): Promise<void> => {
    try {
      // Asked first because it is open to all: a 401 that is no surprise has no place in the browser's console.
      const setup = await ask<SetupAnswer>("/setup");
      if (!setup.logged_in) {
        api.setCsrf(null);
        setSession({ state: "out", me: null, setup: setup.open });
        return;
      }
      const me = await ask<Me>("/me");
      api.setCsrf(me.csrf);
      setSession({ state: "in", me });
    } catch (error) {
      api.setCsrf(null);
      if (error instanceof ApiError && error.status === 401) {
        setSession({ state: "out", me: null, setup: false });
      } else {
        setSession({ state: "silent", me: null });
        setTimeout(() => void refresh(), AGAIN_MS);
      }
    }
  }, []);

  const logOut = useCallback(async (): Promise<void> => {
    // First of all nothing asks any more: a later request would be refused.
    setSession({ state: "asking", me: null });
    try {
      await ask("/logout", "POST");
    } finally {
      await refresh();
    }
  }, [refresh]);

  useEffect(() => {
    void refresh();
    const out = (): void => {
      api.setCsrf(null);
      setSession((before) => (before.state === "in" ? { state: "out", me: null, setup: false } : before));
    };
    addEventListener(LOGGED_OUT, out);
    return () => removeEventListener(LOGGED_OUT, out);
  }, [refresh]);

  return [session, { entered: refresh, logOut, refresh }];
}
