import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { useShown } from '../app.ts';
import { focus, moveFocus } from '../dom.ts';
import type { Entities } from '../entities.ts';
import { describeErasure, type ShownEvent } from '../events.ts';
import { Cell, StreamName, Tag } from '../parts.tsx';
import { beginning, capital, visible } from '../text.ts';
import type { Zone } from '../zone.ts';
import { EventDetail } from './eventDetail.tsx';

const MAX_LABEL_CHARACTERS = 200;

/** The rows of events: one stop of the Tab key, within which arrow keys move; Escape closes a row. */
export function EventTable(): JSX.Element {
  const { state, app } = useShown();
  const { timeline, zone, route } = state;
  const { events = [], open } = timeline;
  const [stop, setStop] = useState<bigint>();
  const current = events.some(({ position }) => position === stop) ? stop : events[0]?.position;
  const toggle = (position: bigint): void => {
    setStop(position);
    app.readers().timeline.toggle(position);
  };
  const named = [...open].find((position) => String(position) === route.fields.position);
  useEffect(() => {
    if (named === undefined) return;
    setStop(named);
    focus(`[data-position="${named}"]`); // it may be out of sight
  }, [named]);

  function onKeyDown(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
    const target = event.target as HTMLElement;
    const isToggle = target.classList.contains('toggle');
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step !== undefined && isToggle) {
      const to = moveFocus(event.currentTarget, '.toggle', step);
      if (to) setStop(BigInt(to.dataset.position as string));
      event.preventDefault();
    } else if (event.key === 'Escape') {
      const row = target.closest('.detail')?.previousElementSibling ?? target.closest('.event');
      const button = row?.querySelector<HTMLElement>('.toggle[aria-expanded="true"]');
      button?.focus();
      button?.click();
    }
  }

  const noun = capital(app.entities.noun);
  const columns = [`Time (${zone.name})`, 'User', noun, 'Tag', 'ID', 'Type', 'Position'];
  return (
    <table class="events" aria-label="Events, newest first">
      <thead>
        <tr>
          {columns.map((name) => (
            <th scope="col" key={name}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody onKeyDown={onKeyDown}>
        {events.map((event) => (
          <EventRow
            key={event.position}
            event={event}
            isOpen={open.has(event.position)}
            isStop={event.position === current}
            zone={zone}
            entities={app.entities}
            toggle={toggle}
          />
        ))}
      </tbody>
    </table>
  );
}

type RowProps = {
  event: ShownEvent;
  isOpen: boolean;
  /** Whether the Tab key stops here. */
  isStop: boolean;
  zone: Zone;
  entities: Entities;
  toggle: (position: bigint) => void;
};

/** The row of an event, and its details if it is open. It is rendered again only when it changes. */
function EventRow({ event, isOpen, isStop, zone, entities, toggle }: RowProps): JSX.Element {
  return useMemo(() => {
    const { data, type, position, subject } = event;
    const entity = entities.parse(subject);
    const erasure = describeErasure(event);
    const time = zone.format(event.time) || 'no time';
    const parts = [time, type, erasure, entity?.user, entity?.id, data?.name];
    const label = parts.filter((text) => typeof text === 'string').join(', ');
    const isNamed = entity || typeof data?.name === 'string';
    return (
      <>
        <tr
          class={event.isNew ? 'event new' : 'event'}
          onClick={({ target }) => {
            const isOnText = getSelection()?.isCollapsed === false;
            if (!isOnText && !(target as Element).closest('button')) toggle(position);
          }}
        >
          <td class="time">
            <button
              type="button"
              class="toggle"
              data-position={position}
              aria-expanded={isOpen}
              aria-label={visible(beginning(label, MAX_LABEL_CHARACTERS))}
              tabIndex={isStop ? 0 : -1}
              onClick={() => toggle(position)}
            >
              {time}
            </button>
          </td>
          <td class="user">
            <Cell value={entity?.user} />
          </td>
          <td class="name">
            {isNamed ? <Cell value={data?.name} /> : (erasure ?? <StreamName name={subject} />)}
          </td>
          <td class="tag">
            <Tag value={data?.tag} />
          </td>
          <td class="id">
            <Cell value={entity?.id} />
          </td>
          <td class="type">
            <Cell value={type} />
          </td>
          <td class="position">{String(position)}</td>
        </tr>
        {isOpen && (
          <tr class="detail">
            <td colSpan={7}>
              <EventDetail event={event} />
            </td>
          </tr>
        )}
      </>
    );
  }, [event, isOpen, isStop, zone]);
}
