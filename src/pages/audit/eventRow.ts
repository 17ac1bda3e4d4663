import { type Api, ApiError, messageOf } from './api.ts';
import { button, cellText, longText, make, saveFile } from './dom.ts';
import type { ShownEvent } from './events.ts';
import { indentedJson, utc } from './text.ts';

/** The error number of a path that the service does not have. */
const NOT_FOUND = 40401;

type Actions = {
  api: Api;
  /** Shows the events of a user only. */
  onUser: (user: string) => void;
  /** Shows the plants of a user at a time. */
  onMoment: (user: string, time: number) => void;
};

/** The row of an event; it opens to show the event's JSON. */
export function eventRow(event: ShownEvent, actions: Actions): HTMLTableRowElement {
  const { time, plant, name, tag, type, position, subject } = event;
  const toggle = button(utc(time) || 'no time', () => {
    const isOpen = toggle.getAttribute('aria-expanded') === 'true';
    toggle.setAttribute('aria-expanded', String(!isOpen));
    if (isOpen) row.nextElementSibling?.remove();
    else row.after(detailRow(event, actions));
  });
  toggle.className = 'toggle';
  toggle.setAttribute('aria-expanded', 'false');
  const row = make('tr', 'event');
  const cells: [string, Node | string][] = [
    ['time', toggle],
    ['user', plant ? cellText(plant.user) : ''],
    ['name', cellText(name ?? (plant ? '' : subject))],
    ['tag', tag === undefined ? '' : make('span', 'chip', cellText(tag))],
    ['id', cellText(plant?.id ?? '')],
    ['type', cellText(type)],
    ['position', String(position)],
  ];
  row.append(...cells.map(([column, content]) => make('td', column, content)));
  row.addEventListener('click', ({ target }) => {
    const isOnText = getSelection()?.isCollapsed === false;
    if (!isOnText && !(target as Element).closest('button')) toggle.click();
  });
  return row;
}

function detailRow(
  { json, plant, time }: ShownEvent,
  { api, onUser, onMoment }: Actions,
): HTMLTableRowElement {
  const text = indentedJson(json);
  const shown = make('pre');
  shown.tabIndex = 0;
  longText(shown, text);
  const said = make('span', 'said');
  said.setAttribute('role', 'status');
  const actions = make('p', 'actions');
  actions.append(
    button('Copy JSON', async () => {
      const isCopied = await navigator.clipboard?.writeText(text).then(
        () => true,
        () => false,
      );
      said.textContent = isCopied ? 'Copied.' : 'The browser does not allow it; select the text.';
    }),
  );
  if (plant) {
    const { user, id } = plant;
    actions.append(
      button('Only this user', () => onUser(user)),
      button('As it was then', () => onMoment(user, time)),
      button('Receipt', async () => {
        try {
          const receipt = await api.get(`proofs/plants?${new URLSearchParams({ user, id })}`);
          saveFile(`plant-${id}.tlog-proof`, await receipt.blob());
          said.textContent = 'Saved; “Check” verifies it.';
        } catch (error) {
          const hasNoTree = error instanceof ApiError && error.number === NOT_FOUND;
          said.textContent = hasNoTree
            ? 'The service has no Merkle tree, so it gives no receipts.'
            : messageOf(error);
        }
      }),
    );
  }
  actions.append(said);
  const cell = make('td', '', actions, shown);
  cell.colSpan = 7;
  return make('tr', 'detail', cell);
}
