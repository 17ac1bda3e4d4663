import './node/globals.ts';
import { domain } from 'audit:domain';
import { Api, messageOf } from './api.ts';
import { Check } from './check.ts';
import { find } from './dom.ts';
import type { Actions } from './eventRow.ts';
import { PointInTime } from './pointInTime.ts';
import { Timeline } from './timeline.ts';
import type { View } from './view.ts';
import { Zone } from './zone.ts';

/** What the oldest supported browsers have; docs/auditing.md lists them. */
const isSupported = 'rawJSON' in JSON && 'fromBase64' in Uint8Array;

/** The page without a token and without anything of the log. */
const signedOut = find(document, 'main').cloneNode(true);

const zone = new Zone();
let views: ReadonlyMap<string, View> | undefined;
/** To sign in; only the last one counts, and none after a sign-out. */
let attempts = 0;

const section = (id: string): HTMLElement => find(document, `#${id}`);
const viewOf = (hash: string): string => hash.replace(/\?.*/s, '');

/** Shows the view of the fragment, by default the first one. */
function show(): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>('nav a')];
  const named = links.find(({ hash }) => viewOf(hash) === viewOf(location.hash));
  const link = named ?? (links[0] as HTMLAnchorElement);
  link.setAttribute('href', named ? location.hash : viewOf(link.hash)); // it leads back to the same filters
  for (const one of links) one.ariaCurrent = one === link ? 'page' : null;
  const current = views ? viewOf(link.hash) : '#sign-in';
  for (const one of document.querySelectorAll<HTMLElement>('main > section'))
    one.hidden = `#${one.id}` !== current;
  for (const element of document.querySelectorAll<HTMLElement>('[data-signed-in]')) element.hidden = !views;
  views?.get(current)?.open(link.hash);
}

function showZone(): void {
  zone.isLocal = find<HTMLSelectElement>(document, '#zone').value === 'local';
  for (const element of document.querySelectorAll('.zone')) element.textContent = zone.name;
  for (const view of views?.values() ?? []) view.expire();
  show();
}

async function signIn(): Promise<void> {
  const token = find<HTMLInputElement>(document, '#token');
  const attempt = ++attempts;
  const api = new Api(token.value.trim(), (message) => {
    if (attempt === attempts && views) signOut(message);
  });
  showProblem('');
  try {
    await api.get('events?limit=0');
  } catch (error) {
    if (attempt === attempts) showProblem(messageOf(error));
    return;
  }
  if (attempt !== attempts) return;
  token.value = '';
  const context = { api, domain, zone };
  const pointInTime = new PointInTime(section('point-in-time'), context);
  const urlOfStates: Actions['urlOfStates'] = (fields) => pointInTime.urlOf(fields);
  views = new Map<string, View>([
    ['#timeline', new Timeline(section('timeline'), { ...context, urlOfStates })],
    ['#point-in-time', pointInTime],
    ['#check', new Check(section('check'), context)],
  ]);
  showZone();
}

function signOut(message = ''): void {
  attempts++;
  for (const view of views?.values() ?? []) view.close();
  views = undefined;
  find(document, 'main').replaceWith(signedOut.cloneNode(true));
  showProblem(message);
  show();
  section('token').focus();
}

function showProblem(text: string): void {
  find(section('sign-in'), '.problem').textContent = text;
}

addEventListener('submit', (event) => {
  event.preventDefault();
  if (section('sign-in').contains(event.target as Node)) void signIn();
});
section('sign-out').onclick = () => signOut();
section('zone').onchange = showZone;
addEventListener('hashchange', show);
if (isSupported) show();
find(document, 'main').hidden = !isSupported;
find(document, '.too-old').hidden = isSupported;
