import { ApiError, errorMessage } from './api.ts';
import {
  button,
  cellText,
  chip,
  copyButton,
  facts,
  jsonDetails,
  link,
  make,
  saveFile,
  streamName,
} from './dom.ts';
import { countErased, type ShownEvent } from './events.ts';
import type { Context } from './screen.ts';
import { beginning, counted, indentedJson, visible } from './text.ts';

/** The error code of an unknown path. */
const NOT_FOUND = 40401;
const MAX_LABEL_CHARACTERS = 200;
/** Attributes that every event of a log shares, and those that the JSON shows better. */
const HIDDEN = [
  'specversion',
  'source',
  'datacontenttype',
  'data',
  'metadata',
  'dataandmetadata',
  'data_base64',
];

export type Actions = Context & {
  /** The URL of the events that match these filters. */
  url: (fields: Record<string, string>) => string;
  /** The URL of a user's entities at a time in RFC 3339, by default now. */
  statesUrl: (fields: { user: string; at: string }) => string;
};

/** The row of an event. Clicking it shows the event's fields and its JSON. */
export function eventRow(event: ShownEvent, actions: Actions): HTMLTableRowElement {
  const { time, data, type, position, subject } = event;
  const entity = actions.entityType.streams.parse(subject);
  const erasure = describeErasure(event);
  const toggle = button(actions.zone.format(time) || 'no time', () => {
    const isOpen = toggle.getAttribute('aria-expanded') === 'true';
    toggle.setAttribute('aria-expanded', String(!isOpen));
    if (isOpen) row.nextElementSibling?.remove();
    else row.after(detailRow(event, actions));
  });
  toggle.className = 'toggle';
  toggle.setAttribute('aria-expanded', 'false');
  const description = [type, erasure, entity?.user, entity?.id, data?.name].filter(
    (text) => typeof text === 'string',
  );
  toggle.ariaLabel = visible(
    beginning([toggle.textContent, ...description].join(', '), MAX_LABEL_CHARACTERS),
  );
  const cells: Record<string, Node | string> = {
    time: toggle,
    user: cellText(entity?.user),
    name: entity || typeof data?.name === 'string' ? cellText(data?.name) : (erasure ?? streamName(subject)),
    tag: chip(data?.tag),
    id: cellText(entity?.id),
    type: cellText(type),
    position: String(position),
  };
  const columns = Object.entries(cells).map(([column, content]) => make('td', column, content));
  const row = make('tr', 'event', ...columns);
  row.dataset.position = String(position);
  row.addEventListener('click', ({ target }) => {
    const isOnText = getSelection()?.isCollapsed === false;
    if (!isOnText && !(target as Element).closest('button')) toggle.click();
  });
  return row;
}

/** What an erased event, or the record of an erasure, is. */
function describeErasure(event: ShownEvent): string | undefined {
  if (event.erased !== undefined) return 'erased; only its digest remains';
  const erased = countErased(event);
  return erased > 0 ? `${counted(erased, 'event')} erased` : undefined;
}

function detailRow(event: ShownEvent, actions: Actions): HTMLTableRowElement {
  const { json, subject, type, position } = event;
  const { api, entityType, url, statesUrl } = actions;
  const time = Number.isFinite(event.time) ? new Date(event.time).toISOString() : '';
  const text = indentedJson(json);
  const status = make('output', 'status');
  const entity = entityType.streams.parse(subject);
  const fields = { ...entity, type, since: time, until: time, position: String(position) };
  const controls: HTMLElement[] = [copyButton('Copy JSON', text, status)];
  if (entity) {
    const saveReceipt = async (): Promise<void> => {
      try {
        const receipt = await api.get(`proofs/${entityType.streams.noun}s?${new URLSearchParams(entity)}`);
        saveFile(`${entityType.streams.noun}-${entity.id}.tlog-proof`, await receipt.blob());
        status.replaceChildren('Saved. ', link('Check it', '#check'));
      } catch (error) {
        const hasNoTree = error instanceof ApiError && error.code === NOT_FOUND;
        status.textContent = hasNoTree
          ? 'The service has no Merkle tree, so it gives no receipts.'
          : errorMessage(error);
      }
    };
    controls.push(
      button('Receipt', saveReceipt),
      link('Only this user', url({ user: entity.user })),
      link(`This user’s ${entityType.streams.noun}s then`, statesUrl({ user: entity.user, at: time })),
    );
  }
  controls.push(link('Link to this event', url(fields)));
  const cell = make(
    'td',
    '',
    eventFields(event, actions),
    make('p', 'actions', ...controls, status),
    jsonDetails(text),
  );
  cell.colSpan = 7;
  return make('tr', 'detail', cell);
}

/** The data and the attributes of an event. */
function eventFields({ json, data, time }: ShownEvent, { zone }: Actions): HTMLElement {
  const attributes = Object.entries(JSON.parse(json)).filter(([name]) => !HIDDEN.includes(name));
  const fields = [...Object.entries(typeof data === 'object' ? (data ?? {}) : {}), ...attributes];
  const shown = fields.map(([name, value], i) => {
    const isAttribute = i >= fields.length - attributes.length;
    if (isAttribute && name === 'time') return [name, `${zone.format(time)} ${zone.name}`] as const;
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (isAttribute && name === 'subject') return ['stream', streamName(String(value))] as const;
    return [isAttribute && name === 'id' ? 'event ID' : name, text && cellText(text)] as const;
  });
  return facts(shown);
}
