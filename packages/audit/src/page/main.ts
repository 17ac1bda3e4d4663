import { entityType } from 'audit:entityType';
import { Api, errorMessage } from './api.ts';
import { Check } from './check.ts';
import { copyText, find } from './dom.ts';
import type { Actions } from './eventRow.ts';
import { PointInTime } from './pointInTime.ts';
import type { Screen } from './screen.ts';
import { Timeline } from './timeline.ts';
import { TO_THE_MINUTE, Zone } from './zone.ts';

/** Features of the oldest supported browsers; docs/auditing.md lists the browsers. */
const isSupported = 'rawJSON' in JSON && 'fromBase64' in Uint8Array;

/** The initial page, without a token or data of the log. */
const signedOut = find(document, 'main').cloneNode(true);

const zone = new Zone();
let screens: ReadonlyMap<string, Screen> | undefined;
/** The number of attempts to sign in. Only the last attempt counts; a sign-out invalidates it. */
let attempts = 0;

const section = (id: string): HTMLElement => find(document, `#${id}`);
const screenName = (hash: string): string => hash.replace(/\?.*/s, '');

/** Shows the screen that the fragment names, by default the first screen. */
function show(): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>('nav a')];
  const named = links.find(({ hash }) => screenName(hash) === screenName(location.hash));
  const link = named ?? (links[0] as HTMLAnchorElement);
  link.setAttribute('href', named ? location.hash : screenName(link.hash)); // the link keeps the current filters
  for (const other of links) other.ariaCurrent = other === link ? 'page' : null;
  const current = screens ? screenName(link.hash) : '#sign-in';
  const isShown = !find(document, current).hidden;
  for (const section of document.querySelectorAll<HTMLElement>('main > section'))
    section.hidden = `#${section.id}` !== current;
  for (const element of document.querySelectorAll<HTMLElement>('[data-signed-in]')) element.hidden = !screens;
  if (screens && !isShown && !document.activeElement?.closest('nav')) find(document, `${current} h2`).focus();
  screens?.get(current)?.open(link.hash);
  const about = new URLSearchParams(location.hash.split('?')[1]).get('about');
  if (screens && about) document.getElementById(`help-${about}`)?.focus();
}

function showZone(): void {
  zone.isLocal = find<HTMLSelectElement>(document, '#zone').value === 'local';
  for (const element of document.querySelectorAll('.zone')) element.textContent = zone.name;
  for (const screen of screens?.values() ?? []) screen.expire();
  show();
}

async function signIn(): Promise<void> {
  const token = find<HTMLInputElement>(document, '#token');
  const attempt = ++attempts;
  const api = new Api(token.value.trim(), (message) => {
    if (attempt === attempts && screens) signOut(message);
  });
  showProblem('');
  try {
    await api.get('events?limit=0');
  } catch (error) {
    if (attempt === attempts) showProblem(errorMessage(error));
    return;
  }
  if (attempt !== attempts) return;
  token.value = '';
  const context = { api, entityType, zone };
  const pointInTime = new PointInTime(section('point-in-time'), context);
  const statesUrl: Actions['statesUrl'] = (fields) => pointInTime.url(fields);
  screens = new Map<string, Screen>([
    ['#timeline', new Timeline(section('timeline'), { ...context, statesUrl })],
    ['#point-in-time', pointInTime],
    ['#check', new Check(section('check'), context)],
  ]);
  showZone();
}

function signOut(message = ''): void {
  attempts++;
  for (const screen of screens?.values() ?? []) screen.close();
  screens = undefined;
  find(document, 'main').replaceWith(signedOut.cloneNode(true));
  showProblem(message);
  show();
  section('token').focus();
}

function showProblem(text: string): void {
  find(section('sign-in'), '.problem').textContent = text;
  section('token').ariaInvalid = text === '' ? null : 'true';
  if (text !== '') find<HTMLDetailsElement>(section('sign-in'), 'details').open = true;
}

addEventListener('submit', (event) => {
  event.preventDefault();
  if (section('sign-in').contains(event.target as Node)) void signIn();
});
section('sign-out').onclick = () => signOut();
section('zone').onchange = showZone;
addEventListener('click', ({ target }) => {
  const copy = (target as Element).closest('.copy');
  if (copy) void copyText(copy.previousElementSibling?.textContent ?? '', copy);
});
addEventListener('beforeprint', () => {
  const time = `${new Zone().format(Date.now(), TO_THE_MINUTE)} UTC`;
  find(document, '.printed').textContent = `Printed at ${time} from ${location.href}`;
});
addEventListener('hashchange', show);
if (isSupported) show();
find(document, 'main').hidden = !isSupported;
find(document, '.too-old').hidden = isSupported;
