import { ApiError, errorMessage } from './api.ts';
import { button, cellText, chip, copyButton, link, longText, make, saveFile, streamName } from './dom.ts';
import type { ShownEvent } from './events.ts';
import type { Context } from './screen.ts';
import { indentedJson } from './text.ts';

/** The error code of an unknown path. */
const NOT_FOUND = 40401;

export type Actions = Context & {
  /** The URL of the events that match these filters. */
  url: (fields: Record<string, string>) => string;
  /** The URL of a user's entities at a time in RFC 3339, by default now. */
  statesUrl: (fields: { user: string; at: string }) => string;
};

/** The row of an event. Clicking it shows the event's JSON. */
export function eventRow(event: ShownEvent, actions: Actions): HTMLTableRowElement {
  const { time, data, type, position, subject } = event;
  const entity = actions.entityType.streams.parse(subject);
  const toggle = button(actions.zone.format(time) || 'no time', () => {
    const isOpen = toggle.getAttribute('aria-expanded') === 'true';
    toggle.setAttribute('aria-expanded', String(!isOpen));
    if (isOpen) row.nextElementSibling?.remove();
    else row.after(detailRow(event, actions));
  });
  toggle.className = 'toggle';
  toggle.setAttribute('aria-expanded', 'false');
  const cells: Record<string, Node | string> = {
    time: toggle,
    user: cellText(entity?.user),
    name: entity || typeof data?.name === 'string' ? cellText(data?.name) : streamName(subject),
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
        status.textContent = 'Saved; “Check” verifies it.';
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
  const cell = make('td', '', make('p', 'actions', ...controls, status), longText(text));
  cell.colSpan = 7;
  return make('tr', 'detail', cell);
}
