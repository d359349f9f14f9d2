import type { FunctionComponent, RefObject } from "preact";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Banner, Header } from "./header";
import { PAGES } from "./pages/index";
import { LoginPage, OwnPasswordPage, SetupPage } from "./pages/login";
import type { PageProps } from "./pages/page";
import { Live } from "./parts/live";
import { LiveContext } from "./parts/live_picture";
import { Empty, ErrorBox, Loading } from "./parts/states";
import { Toasts } from "./parts/toasts";
import type { Route } from "./router";
import { HOME, go, href, useRoute } from "./router";
import type { SessionActions } from "./session";
import { useSession } from "./session";
import type { Me } from "./api";
import { useAppliance, useNow, useTheme } from "./store";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/parts.css";
import "./styles/wall.css";
import "./styles/narrow.css";

/** Pages that one sees without being logged in. */
const OUTSIDE = new Set(["login", "setup"]);

function Root() {
  const route = useRoute();
  const [session, actions] = useSession();
  const [theme, setTheme] = useTheme();
  const outside = OUTSIDE.has(route.page);
  const link = route.page === "login" ? route.query.get("link") : null;

  useEffect(() => {
    if (session.state === "out" && !outside) {
      if (session.setup) go("#/setup", true);
      else go(`#/login?next=${encodeURIComponent(location.hash.slice(1))}`, true);
    }
    if (session.state === "in" && outside && link === null) go(wanted(route), true);
  }, [session, route]);

  if (session.state === "asking" || session.state === "silent") {
    return (
      <main class="alone">
        {session.state === "silent" ? (
          <ErrorBox what="The appliance does not answer" error="Trying again every two seconds." />
        ) : (
          <Loading what="Asking the appliance" />
        )}
      </main>
    );
  }
  if (outside && (session.state === "out" || link !== null)) {
    return route.page === "setup" ? (
      <SetupPage route={route} entered={actions.entered} />
    ) : (
      <LoginPage route={route} entered={actions.entered} />
    );
  }
  if (session.me === null) return null;
  if (session.me.must_change) return <OwnPasswordPage me={session.me} changed={actions.refresh} onLogOut={actions.logOut} />;
  return <Shell me={session.me} route={route} actions={actions} theme={theme} onTheme={setTheme} />;
}

/** Where one wanted to go before one had to log in. Only ever a page of ours: the part behind "#". */
function wanted(route: Route): string {
  const next = route.query.get("next");
  return next?.startsWith("/") && !/^\/(login|setup)\b/.test(next) ? `#${next}` : HOME;
}

interface ShellProps {
  me: Me;
  route: Route;
  actions: SessionActions;
  theme: ReturnType<typeof useTheme>[0];
  onTheme: ReturnType<typeof useTheme>[1];
}

/** The live pictures, and whether they come; null: nothing was connected yet. */
function useLive(): [Live | null, boolean | null] {
  const [live, setLive] = useState<Live | null>(null);
  const [connected, setConnected] = useState<boolean | null>(null);
  useEffect(() => {
    const made = new Live(setConnected);
    setLive(made);
    return () => made.close();
  }, []);
  return [live, connected];
}

/** Another page begins at its top, and a screen reader begins there too. */
function useTop(main: RefObject<HTMLElement | null>, route: Route): void {
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else {
      scrollTo(0, 0);
      // A user who walks along tabs by keyboard stays on them.
      if (document.activeElement?.closest("[role=tablist]") == null) main.current?.focus({ preventScroll: true });
    }
  }, [route.page, route.rest[0]]);
}

function Shell({ me, route, actions, theme, onTheme }: ShellProps) {
  const known = useAppliance();
  const now_s = useNow(known.offset_s);
  const [live, connected] = useLive();
  const main = useRef<HTMLElement>(null);
  const { overview } = known;
  const page = PAGES.find((p) => p.name === route.page);

  const site = overview?.site ?? "Magpie";
  const title = page?.title ?? overview?.cameras.find((c) => c.id === route.rest[0])?.name ?? "Magpie";
  useEffect(() => {
    document.title = `${title} – ${site}`;
  }, [title, site]);
  useTop(main, route);

  return (
    <LiveContext.Provider value={live}>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the page
      </a>
      <Header
        overview={overview}
        health={known.health}
        now_s={now_s}
        page={page?.under ?? page?.name ?? ""}
        me={me}
        theme={theme}
        onTheme={onTheme}
        onLogOut={actions.logOut}
      />
      <Banner
        overview={overview}
        health={known.health}
        silentSince={known.silentSince}
        liveLost={connected === false}
        now_s={now_s}
      />
      <main id="main" ref={main} tabIndex={-1} class={known.silentSince === null ? `page-${route.page}` : `page-${route.page} old`}>
        <Shown page={page?.name ?? null} known={known} me={me} now_s={now_s} />
      </main>
      <Toasts />
    </LiveContext.Provider>
  );
}

/** The page, once it is loaded. */
function Shown({ page, ...props }: { page: string | null } & PageProps) {
  const [loaded, setLoaded] = useState<{ name: string; Part: FunctionComponent<PageProps> } | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    let wanted = true;
    setFailure(null);
    PAGES.find((p) => p.name === page)
      ?.load()
      .then((Part) => wanted && page !== null && setLoaded({ name: page, Part }))
      .catch((error: unknown) => wanted && setFailure(error));
    return () => {
      wanted = false;
    };
  }, [page, tries]);
  if (page === null) {
    return (
      <Empty title="There is no such page" action={<a href={href("wall")}>To the cameras</a>} level={1}>
        The address may be from an older version, or mistyped.
      </Empty>
    );
  }
  if (failure !== null) {
    return <ErrorBox what="This page could not be loaded" error={failure} onRetry={() => setTries(tries + 1)} />;
  }
  if (loaded?.name !== page || (props.known.overview === null && props.known.silentSince === null)) return <Loading />;
  return <loaded.Part {...props} />;
}

const place = document.getElementById("page");
if (place !== null) render(<Root />, place);
