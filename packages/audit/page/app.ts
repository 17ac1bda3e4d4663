import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Api } from './api.ts';
import type { Checker } from './check/checker.ts';
import type { Entities } from './entities.ts';
import type { PointLoader } from './pointInTime/pointLoader.ts';
import type { Fields, Screen } from './route.ts';
import type { State } from './state.ts';
import type { TimelineLoader } from './timeline/timelineLoader.ts';

/** What reads the log for a signed-in auditor. */
export type Readers = { api: Api; timeline: TimelineLoader; pointInTime: PointLoader; checker: Checker };

/** What all components can use. */
export type App = {
  entities: Entities;
  /** The URL of the icon. */
  icon: string;
  /** The readers of the session. */
  readers: () => Readers;
  signIn: (token: string) => void;
  signOut: () => void;
  setLocal: (isLocal: boolean) => void;
  /** Shows a screen with these fields, and adds it to the history; reads again if it is shown already. */
  go: (screen: Screen, fields: Fields) => void;
};

type Shown = { state: State; app: App };

export const Shown = createContext<Shown | undefined>(undefined);
export const useShown = (): Shown => useContext(Shown) as Shown;
