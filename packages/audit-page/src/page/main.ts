import './node/globals.ts';
import { domain } from 'audit-page:domain';
import { Api, messageOf } from './api.ts';
import { Check } from './check.ts';
import { find } from './dom.ts';
import { PointInTime } from './pointInTime.ts';
import { Timeline } from './timeline.ts';

/** What the oldest supported browsers have; docs/auditing.md lists them. */
const isSupported = 'rawJSON' in JSON && 'fromBase64' in Uint8Array;

/** The page without a token and without anything of the log. */
const signedOut = find(document, 'main').cloneNode(true);

let views: { timeline: Timeline; pointInTime: PointInTime; check: Check } | undefined;

const section = (id: string): HTMLElement => find(document, `#${id}`);

/** Shows the view of the fragment, by default the first one. */
function show(): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>('nav a')];
  const link = links.find(({ hash }) => hash === location.hash) ?? links[0];
  for (const one of links) one.ariaCurrent = one === link ? 'page' : null;
  const current = views ? link?.hash : '#sign-in';
  for (const one of document.querySelectorAll<HTMLElement>('main > section'))
    one.hidden = `#${one.id}` !== current;
  for (const element of document.querySelectorAll<HTMLElement>('[data-signed-in]')) element.hidden = !views;
  if (current === '#check') void views?.check.show();
}

async function signIn(): Promise<void> {
  const token = find<HTMLTextAreaElement>(document, '#token');
  const api = new Api(token.value.trim(), signOut);
  showProblem('');
  try {
    await api.get('events?limit=0');
  } catch (error) {
    showProblem(messageOf(error));
    return;
  }
  token.value = '';
  const pointInTime = new PointInTime(section('point-in-time'), api, domain);
  const onPointInTime = (user: string, time: number): void => {
    location.hash = '#point-in-time';
    void pointInTime.showUser(user, time);
  };
  views = {
    timeline: new Timeline(section('timeline'), { api, domain, onPointInTime }),
    pointInTime,
    check: new Check(section('check'), api),
  };
  show();
  void views.timeline.load();
}

function signOut(message = ''): void {
  for (const view of Object.values(views ?? {})) view.close();
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
addEventListener('hashchange', show);
if (isSupported) show();
find(document, 'main').hidden = !isSupported;
find(document, '.too-old').hidden = isSupported;
