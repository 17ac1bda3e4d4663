import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { type App, Shown } from './app.ts';
import { CheckScreen } from './check/checkScreen.tsx';
import { focus, hasLostFocus } from './dom.ts';
import { Header } from './header.tsx';
import { Help } from './help.tsx';
import { PointScreen } from './pointInTime/pointScreen.tsx';
import type { Screen } from './route.ts';
import { SignIn } from './signIn.tsx';
import type { State } from './state.ts';
import type { Store } from './store.ts';
import { TimelineScreen } from './timeline/timelineScreen.tsx';

const SCREENS: Record<Screen, () => JSX.Element> = {
  timeline: TimelineScreen,
  'point-in-time': PointScreen,
  check: CheckScreen,
  help: Help,
};

/** The page, rendered from one state. */
export function Page({ store, app }: { store: Store<State>; app: App }): JSX.Element {
  const [state, setState] = useState(store.state);
  store.onChange = setState;
  const focused = document.activeElement;
  useLayoutEffect(() => {
    // The title of the screen, or the token, gets the focus of what is no longer there.
    if (hasLostFocus(focused)) focus('[data-title]');
  });
  const Current = state.session.isSignedIn ? SCREENS[state.route.screen] : SignIn;
  return (
    <Shown.Provider value={{ state, app }}>
      <Header />
      <main>
        <Current />
        <Printed state={state} />
      </main>
    </Shown.Provider>
  );
}

/** When and from where a screen was printed. */
function Printed({ state: { zone } }: { state: State }): JSX.Element {
  const [time, setTime] = useState(Date.now());
  useEffect(() => {
    const print = (): void => setTime(Date.now());
    addEventListener('beforeprint', print);
    return () => removeEventListener('beforeprint', print);
  }, []);
  return (
    <p class="printed">
      Printed at {zone.formatNamed(time)} from {location.href}. Times are in {zone.name}.
    </p>
  );
}
