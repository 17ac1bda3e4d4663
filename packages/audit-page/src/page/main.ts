import './node/globals.ts';
import { domain } from 'audit-page:domain';
import { Api, messageOf } from './api.ts';
import { Check } from './check.ts';
import { find } from './dom.ts';
import { PointInTime } from './pointInTime.ts';
import { Timeline } from './timeline.ts';

const VIEWS = ['timeline', 'point-in-time', 'check'] as const;
type View = (typeof VIEWS)[number];

const section = (id: View | 'sign-in'): HTMLElement => find(document, `#${id}`);
const token = find<HTMLTextAreaElement>(document, '#token');
const signInProblem = find(section('sign-in'), '.problem');

/** What the oldest supported browsers have; docs/auditing.md lists them. */
const isSupported = 'rawJSON' in JSON && 'fromBase64' in Uint8Array;

/** What is there while the auditor is signed in. */
let views: { timeline: Timeline; pointInTime: PointInTime; check: Check } | undefined;

/** Shows the view of the fragment, by default the first one. */
function show(): void {
  const id = location.hash.slice(1);
  const current = views ? (VIEWS.find((view) => view === id) ?? VIEWS[0]) : 'sign-in';
  for (const id of [...VIEWS, 'sign-in'] as const) section(id).hidden = id !== current;
  for (const element of document.querySelectorAll<HTMLElement>('[data-signed-in]')) element.hidden = !views;
  for (const link of document.querySelectorAll<HTMLAnchorElement>('nav a'))
    link.ariaCurrent = link.hash === `#${current}` ? 'page' : null;
  if (current === 'check') void views?.check.show();
}

async function signIn(): Promise<void> {
  const api = new Api(token.value.trim(), signOut);
  signInProblem.textContent = '';
  try {
    await api.get('events?limit=0');
  } catch (error) {
    signInProblem.textContent = messageOf(error);
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
  for (const form of document.querySelectorAll('form')) form.reset();
  signInProblem.textContent = message;
  show();
  token.focus();
}

addEventListener('submit', (event) => event.preventDefault());
find(section('sign-in'), 'form').addEventListener('submit', signIn);
find(document, '#sign-out').addEventListener('click', () => signOut());
addEventListener('hashchange', show);
if (isSupported) show();
find(document, 'main').hidden = !isSupported;
find(document, '.too-old').hidden = isSupported;
