import { Api, errorMessage } from './api.ts';
import type { App, Readers } from './app.ts';
import { Checker } from './check/checker.ts';
import type { Entities } from './entities.ts';
import { PointLoader } from './pointInTime/pointLoader.ts';
import { parseRoute, queryOf, type Screen, url } from './route.ts';
import { type State, signedOut } from './state.ts';
import type { Store } from './store.ts';
import { TimelineLoader } from './timeline/timelineLoader.ts';
import { Zone } from './zone.ts';

/** The actions of the page, which change the state. */
export function createApp(store: Store<State>, entities: Entities, icon: string): App {
  let readers: Readers | undefined;
  /** The number of attempts to sign in. Only the last attempt counts; a sign-out invalidates it. */
  let attempts = 0;
  /** What each screen was asked last. */
  const asked = new Map<Screen, string>();

  /** Shows the screen of the fragment; reads the log, unless the screen shows the same already. */
  function open(): void {
    const route = parseRoute(location.hash);
    const { screen, fields } = route;
    store.set({ route, visited: { ...store.state.visited, [screen]: url(screen, fields) } });
    if (!readers) return;
    const question = `${url(screen, fields)} ${utcQuery()}`;
    const listsUsers = screen === 'point-in-time' && !fields.user; // who has events changes with the log
    if (asked.get(screen) === question && !listsUsers) return;
    asked.set(screen, question);
    if (screen === 'timeline') void readers.timeline.show();
    if (screen === 'point-in-time') void readers.pointInTime.show();
    if (screen === 'check') void readers.checker.show();
  }

  /** The query of the filters: a time without an offset is another instant in another zone. */
  function utcQuery(): string {
    try {
      return String(queryOf(store.state.route, store.state.zone));
    } catch {
      return '';
    }
  }

  async function signIn(token: string): Promise<void> {
    const attempt = ++attempts;
    const api = new Api(token, {
      onUnauthorized: (message) => readers && attempt === attempts && signOut(message),
      onUnreachable: lose,
    });
    store.set({ session: { isSignedIn: false, isBusy: true, problem: '' } });
    try {
      await api.get('events?limit=0', 'application/x-ndjson');
    } catch (error) {
      if (attempt !== attempts) return;
      return store.set({ session: { isSignedIn: false, isBusy: false, problem: errorMessage(error) } });
    }
    if (attempt !== attempts) return;
    const context = { api, entities, store };
    readers = {
      api,
      timeline: new TimelineLoader(context),
      pointInTime: new PointLoader(context),
      checker: new Checker(context),
    };
    store.set({ session: { isSignedIn: true, isBusy: false, problem: '' } });
    open();
  }

  function signOut(problem = ''): void {
    attempts++;
    readers?.timeline.close();
    readers?.pointInTime.close();
    readers?.checker.close();
    readers = undefined;
    asked.clear();
    store.set({ ...signedOut(problem), zone: store.state.zone });
  }

  /** A request did not reach the service: then new events may not arrive either. */
  function lose(): void {
    if (store.state.connection.state !== 'live') return;
    store.set({ connection: { state: 'lost', problem: 'The service cannot be reached.' } });
    readers?.timeline.interrupt();
  }

  addEventListener('hashchange', open);
  addEventListener('offline', lose);
  return {
    entities,
    icon,
    readers: () => readers as Readers,
    signIn: (token) => void signIn(token),
    signOut: () => signOut(),
    setLocal(isLocal) {
      store.set({ zone: new Zone(isLocal) });
      open();
    },
    go(screen, fields) {
      const fragment = url(screen, fields);
      asked.delete(screen);
      if (fragment === location.hash) open();
      else location.hash = fragment;
    },
  };
}
