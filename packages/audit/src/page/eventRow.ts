import { ApiError, messageOf } from './api.ts';
import { button, cellText, chip, copyButton, longText, make, saveFile } from './dom.ts';
import type { ShownEvent } from './events.ts';
import { indentedJson, utc } from './text.ts';
import type { Context } from './view.ts';

/** The error code of a path that the service does not have. */
const NOT_FOUND = 40401;

export type Actions = Context & {
  onUser: (user: string) => void;
  /** Shows the state of a user at a time in RFC 3339; empty if it is unknown. */
  onPointInTime: (user: string, at: string) => void;
};

/** The row of an event; it opens to show the event's JSON. */
export function eventRow(event: ShownEvent, actions: Actions): HTMLTableRowElement {
  const { time, data, type, position, subject } = event;
  const entity = actions.domain.streams.parse(subject);
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
    name: cellText(entity || typeof data?.name === 'string' ? data?.name : subject),
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

function detailRow({ json, subject, time }: ShownEvent, actions: Actions): HTMLTableRowElement {
  const { api, domain, onUser, onPointInTime } = actions;
  const text = indentedJson(json);
  const status = make('output', 'status');
  const buttons = [copyButton('Copy JSON', text, status)];
  const entity = domain.streams.parse(subject);
  if (entity) {
    const saveReceipt = async (): Promise<void> => {
      try {
        const receipt = await api.get(`proofs/${domain.streams.noun}s?${new URLSearchParams(entity)}`);
        saveFile(`${domain.streams.noun}-${entity.id}.tlog-proof`, await receipt.blob());
        status.textContent = 'Saved; “Check” verifies it.';
      } catch (error) {
        const hasNoTree = error instanceof ApiError && error.code === NOT_FOUND;
        status.textContent = hasNoTree
          ? 'The service has no Merkle tree, so it gives no receipts.'
          : messageOf(error);
      }
    };
    buttons.push(
      button('Only this user', () => onUser(entity.user)),
      button('Point in time', () => onPointInTime(entity.user, utc(time) && new Date(time).toISOString())),
      button('Receipt', saveReceipt),
    );
  }
  const cell = make('td', '', make('p', 'actions', ...buttons, status), longText(text));
  cell.colSpan = 7;
  return make('tr', 'detail', cell);
}
