import type { JSX } from 'preact';
import { useShown } from './app.ts';
import { Button } from './parts.tsx';
import { SCREENS, type Screen, url } from './route.ts';

/** The title and, for a signed-in auditor, the screens, the connection and the zone of times. */
export function Header(): JSX.Element {
  const { state, app } = useShown();
  const { title } = app.entities.data;
  const { route, visited, zone, connection } = state;
  const screens = Object.keys(SCREENS) as Screen[];
  return (
    <>
      <header>
        <h1>
          <img src={app.icon} alt="" width="20" height="20" /> <b>{title}</b> <span>audit</span>
        </h1>
        {state.session.isSignedIn && (
          <>
            <nav aria-label="Screens">
              {screens.map((screen) => (
                <a
                  key={screen}
                  href={screen === 'help' ? '#help' : (visited[screen] ?? url(screen))}
                  aria-current={screen === route.screen ? 'page' : undefined}
                >
                  {SCREENS[screen].title}
                </a>
              ))}
            </nav>
            {connection.state !== 'off' && <ConnectionState state={connection.state} />}
            <select
              id="zone"
              class="quiet"
              aria-label="Times in"
              value={zone.isLocal ? 'local' : 'utc'}
              onChange={({ currentTarget }) => app.setLocal(currentTarget.value === 'local')}
            >
              <option value="utc">UTC</option>
              <option value="local">Local</option>
            </select>
            <Button id="sign-out" class="quiet" onClick={app.signOut}>
              Sign out
            </Button>
          </>
        )}
      </header>
      {connection.state === 'lost' && (
        <p class="lost" role="alert">
          No new events arrive: {connection.problem} Trying again…
        </p>
      )}
    </>
  );
}

const NAMES = { connecting: 'Connecting', live: 'Live', lost: 'Reconnecting' };

/** Whether new events arrive. */
function ConnectionState({ state }: { state: keyof typeof NAMES }): JSX.Element {
  return (
    <span class="live" role="status" data-state={NAMES[state]}>
      {NAMES[state]}
    </span>
  );
}
