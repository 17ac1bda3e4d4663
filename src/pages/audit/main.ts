import './node/globals.ts';
import { Api, messageOf } from './api.ts';
import { AsItWas } from './asItWas.ts';
import { Check } from './check.ts';
import { find } from './dom.ts';
import { Timeline } from './timeline.ts';

const VIEWS = ['timeline', 'as-it-was', 'check'] as const;
type View = (typeof VIEWS)[number];
type Views = { timeline: Timeline; asItWas: AsItWas; check: Check };

const section = (id: View | 'sign-in'): HTMLElement => find(document, `#${id}`);
const signInForm = find<HTMLFormElement>(section('sign-in'), 'form');
const token = find<HTMLTextAreaElement>(signInForm, '#token');
const signInProblem = find(signInForm, '.problem');

/** What the oldest supported browsers have; docs/auditing.md lists them. */
const isSupported = 'rawJSON' in JSON && 'fromBase64' in Uint8Array;

/** What is there while the auditor is signed in. */
let views: Views | undefined;

/** The view of the fragment; by default the first one. */
function currentView(): View {
  const id = location.hash.slice(1);
  return VIEWS.find((view) => view === id) ?? VIEWS[0];
}

function show(): void {
  const current = views ? currentView() : 'sign-in';
  for (const id of [...VIEWS, 'sign-in'] as const) section(id).hidden = id !== current;
  for (const element of document.querySelectorAll<HTMLElement>('[data-signed-in]')) element.hidden = !views;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === `#${current}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (current === 'check') void views?.check.show();
}

async function signIn(): Promise<void> {
  const api = new Api(token.value.trim(), (message) => signOut(message));
  signInProblem.textContent = '';
  try {
    await api.get('events?limit=0');
  } catch (error) {
    signInProblem.textContent = messageOf(error);
    return;
  }
  token.value = '';
  const asItWas = new AsItWas(section('as-it-was'), api);
  const onMoment = (user: string, time: number): void => {
    location.hash = '#as-it-was';
    void asItWas.showUser(user, time);
  };
  views = {
    timeline: new Timeline(section('timeline'), { api, onMoment }),
    asItWas,
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

signInForm.addEventListener('submit', (event) => {
  event.preventDefault();
  void signIn();
});
find(document, '#sign-out').addEventListener('click', () => signOut());
addEventListener('hashchange', show);
if (isSupported) show();
find(document, 'main').hidden = !isSupported;
find(document, '.too-old').hidden = isSupported;
