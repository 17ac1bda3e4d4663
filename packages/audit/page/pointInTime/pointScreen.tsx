import { EVENTS_ERASED } from '@event-sourced/event-log/erasure';
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { useShown } from '../app.ts';
import { Filters } from '../filters.tsx';
import { Button, Cell, Frame, Nothing, ProblemText, Tag, Title } from '../parts.tsx';
import { url } from '../route.ts';
import { type State as EntityState, statesAt } from '../states.ts';
import { are, capital, counted } from '../text.ts';
import { type PointState, ROWS, type Users } from './pointState.ts';

/** The users that are listed; the field suggests more. */
const MAX_USERS = 10;

/** The entities of a user as they were at a point in time. */
export function PointScreen(): JSX.Element {
  const { state, app } = useShown();
  const { pointInTime, route } = state;
  const { status, problem, users, shown, erased = 0 } = pointInTime;
  const { noun } = app.entities;
  const asksUser = (route.fields.user ?? '') === '';
  const isEmptyLog = asksUser && users?.events === 0;
  const isFailed = status === 'failed';
  const problemText = <ProblemText problem={problem} onRetry={() => app.go('point-in-time', route.fields)} />;
  return (
    <section id="point-in-time" aria-labelledby="point-in-time-title">
      <div class="title">
        <Title id="point-in-time">Point in time</Title>
      </div>
      <p class="lead">The {noun}s of a user as they were at a point in time, from the events of the log.</p>
      {!isEmptyLog && (
        <Filters
          screen="point-in-time"
          problem={problem}
          suggestions={{ user: users?.counts.map(([user]) => user) ?? [] }}
          submit="Show"
        />
      )}
      {!isFailed && problemText}
      {erased > 0 && (
        <p class="erased">
          {are(erased, 'event')} erased in this log; {erased === 1 ? 'its' : 'their'} {noun}s are not shown.{' '}
          <a href={url('timeline', { type: EVENTS_ERASED })}>The records</a>
        </p>
      )}
      {isFailed ? (
        <Nothing>
          {problemText}
          {problem?.isRefused && <a href={url('point-in-time')}>Choose a user</a>}
        </Nothing>
      ) : asksUser && users ? (
        <UserList users={users} />
      ) : !asksUser && shown ? (
        <EntityStates {...shown} rows={pointInTime.rows} isBusy={status === 'loading'} />
      ) : (
        <Frame rows={6} label="Loading…" />
      )}
    </section>
  );
}

function UserList({ users: { counts, events } }: { users: Users }): JSX.Element {
  const { state, app } = useShown();
  if (events === 0)
    return (
      <Nothing title="The log is empty.">
        <p>
          <a href={url('timeline')}>Create the first {app.entities.noun}</a>
        </p>
      </Nothing>
    );
  const more = counts.length - MAX_USERS;
  return (
    <div class="users">
      <p>
        The users with most of the newest {counted(events, 'event')}
        {more > 0 && `, and ${counted(more, 'other user')} that the field suggests`}:
      </p>
      <ul class="card">
        {counts.slice(0, MAX_USERS).map(([user, number]) => (
          <li key={user}>
            <a href={url('point-in-time', { ...state.route.fields, user })}>
              <Cell value={user} />
            </a>
            <span>{counted(number, 'event')}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

type Props = NonNullable<PointState['shown']> & { rows: number; isBusy: boolean };

function EntityStates({ user, changes, times, at, rows, isBusy }: Props): JSX.Element {
  const { state, app } = useShown();
  const { zone, route } = state;
  const { entities } = app;
  const { noun } = entities;
  const Noun = capital(noun);
  const states = useMemo(() => statesAt(changes, at, entities), [changes, at]);
  const when = at < (times[0] ?? 0) ? `Before the first ${noun}` : zone.formatNamed(at);
  return (
    <div class="state" aria-busy={isBusy}>
      <h3 class="question">
        {Noun}s of <Cell value={user} />
      </h3>
      <p class="when" role="status">
        {when}: {counted(states.length, noun)}
      </p>
      <Steps
        times={times}
        at={at}
        onStep={(time) => app.go('point-in-time', { ...route.fields, at: time })}
      />
      {states.length === 0 ? (
        <Nothing title={`No ${noun}s at that time.`} />
      ) : (
        <table class="entities" aria-label={`${Noun}s at that time`}>
          <thead>
            <tr>
              {[Noun, 'Tag', 'ID', `Since (${zone.name})`].map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {states.slice(0, rows).map((one) => (
              <Row key={one.id} state={one} since={zone.format(one.since)} isNew={one.changed === at} />
            ))}
          </tbody>
        </table>
      )}
      {states.length > rows && (
        <Button class="more" onClick={() => app.readers().pointInTime.showMore()}>
          Show {Math.min(ROWS, states.length - rows)} more of {counted(states.length, noun)}
        </Button>
      )}
    </div>
  );
}

/** Steps to the events before and after the point in time. */
function Steps(props: { times: readonly number[]; at: number; onStep: (time: string) => void }): JSX.Element {
  const { times, at, onStep } = props;
  const [first, last] = [times[0], times.at(-1)];
  const before =
    times.findLast((time) => time < at) ?? (first !== undefined && at >= first ? first - 1 : undefined);
  const steps: Record<string, number | undefined> = {
    First: first,
    Previous: before,
    Next: times.find((time) => time > at),
    Last: last,
  };
  return (
    <p class="actions">
      Event:
      {Object.entries(steps).map(([name, time]) => (
        <Button
          key={name}
          aria-label={`${name} event`}
          aria-disabled={time === undefined || time === at}
          onClick={() => time !== undefined && onStep(new Date(time).toISOString())}
        >
          {name}
        </Button>
      ))}
    </p>
  );
}

function Row({ state, since, isNew }: { state: EntityState; since: string; isNew: boolean }): JSX.Element {
  return (
    <tr class={isNew ? 'new' : ''}>
      <td class="name">
        <Cell value={state.entity.name} />
      </td>
      <td class="tag">
        <Tag value={state.entity.tag} />
      </td>
      <td class="id">
        <Cell value={state.id} />
      </td>
      <td class="time">{since}</td>
    </tr>
  );
}
