import { render } from 'preact';
import { Entities } from './entities.ts';
import { Page } from './page.tsx';
import { createApp } from './session.ts';
import { signedOut } from './state.ts';
import { Store } from './store.ts';

/** Features of the oldest supported browsers; docs/auditing.md lists the browsers. */
const isSupported = 'rawJSON' in JSON && 'fromBase64' in Uint8Array;

const { log = '', icon = '' } = document.body.dataset;
const entities = new Entities(JSON.parse(log));
document.body.replaceChildren(); // Preact would keep the static frame
if (isSupported) {
  const store = new Store(signedOut());
  render(<Page store={store} app={createApp(store, entities, icon)} />, document.body);
} else {
  render(
    <p class="nothing card too-old" role="alert">
      This browser is too old: this page requires Chrome 140, Firefox 135, Safari 18.4, or a later one.
    </p>,
    document.body,
  );
}
