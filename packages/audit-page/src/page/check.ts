import {
  consistencyProofFromTiles,
  decodeUtf8,
  isInclusionProof,
  MAX_NOTE_BYTES,
  openCheckpoint,
  openInclusionProof,
  parseConsistencyProof,
  parseVerifierKey,
  type SignedCheckpoint,
  type TreeHead,
  tilePath,
  type VerifierKey,
  verifyConsistency,
} from '@event-sourced/transparency-log';
import { type Api, ApiError, messageOf } from './api.ts';
import { longText, make, saveFile } from './dom.ts';
import { rootOfEntries } from './rootOfEntries.ts';
import { count, counted, visible } from './text.ts';
import { View } from './view.ts';

/** The largest proof has an entry of 64 KiB in Base64, and a note. */
const MAX_FILE_BYTES = 2 * MAX_NOTE_BYTES;

type Verified = { key: VerifierKey; note: string; checkpoint: SignedCheckpoint };
type Card = 'key' | 'checkpoint' | 'whole' | 'evidence';

/** Checks of the log, computed here from the key that the auditor pastes. */
export class Check extends View {
  #verified: Verified | undefined;

  constructor(section: HTMLElement, api: Api) {
    super(section, api);
    this.find('form').onsubmit = () => this.#checkSignature(this.field('key').value.trim());
    this.find('.keep').onclick = () => this.#keep();
    this.find('.read').onclick = () => this.#readWholeLog();
    this.find('.stop').onclick = () => this.loading.abort();
    const input = this.find<HTMLInputElement>('[type="file"]');
    input.onchange = () => {
      void this.#checkFile(input.files?.[0]);
      input.value = '';
    };
    const drop = this.find('.drop');
    drop.ondragover = (event) => event.preventDefault();
    drop.ondrop = (event) => {
      event.preventDefault();
      void this.#checkFile(event.dataTransfer?.files[0]);
    };
  }

  async show(): Promise<void> {
    const hasTree = (await this.#ownKey()) !== undefined;
    this.find('.no-tree').hidden = hasTree;
    this.find('.steps').hidden = !hasTree;
  }

  /** The key that the service states, which another service in its place would state as well. */
  async #ownKey(): Promise<string | undefined> {
    try {
      return (await (await this.api.get('log-key')).text()).trim();
    } catch (error) {
      return error instanceof ApiError && error.status === 404 ? undefined : '';
    }
  }

  async #checkSignature(text: string): Promise<void> {
    this.#forget();
    let card: Card = 'key';
    try {
      if (!isSecureContext) throw new Error('Browsers verify signatures on https and localhost only.');
      const key = parseVerifierKey(text);
      if (text === (await this.#ownKey())) this.#show(card, true, 'The service states the same key.');
      else this.#show(card, false, 'The service states another key. One of them is not that of this log.');
      card = 'checkpoint';
      await this.#update(key);
    } catch (error) {
      // https://www.w3.org/TR/webcrypto-2/#dfn-normalize-an-algorithm
      const lacksEd25519 = error instanceof DOMException && error.name === 'NotSupportedError';
      const text = lacksEd25519
        ? 'This browser cannot verify signatures: its WebCrypto has no Ed25519. Chrome 137, Firefox 129 and Safari 17 have it.'
        : messageOf(error);
      this.#show(card, false, text);
    }
  }

  async #update(key: VerifierKey): Promise<SignedCheckpoint> {
    const note = await (await this.api.get('checkpoint')).text();
    const checkpoint = await openCheckpoint(note, key);
    this.#verified = { key, note, checkpoint };
    const { origin, size, root } = checkpoint;
    const facts = make('dl');
    for (const [name, value] of Object.entries({ Log: origin, Events: count(size), Root: root }))
      facts.append(make('dt', '', name), make('dd', '', make('bdi', '', visible(value))));
    this.#show('checkpoint', true, 'The signature is valid.', facts);
    this.#enable(true);
    return checkpoint;
  }

  async #readWholeLog(): Promise<void> {
    if (!this.#verified) return;
    const { size, root } = this.#verified.checkpoint;
    const signal = this.restart();
    const progress = this.find<HTMLProgressElement>('progress');
    const pace = this.find('.pace');
    const showReading = (isReading: boolean): void => {
      this.find('.read').hidden = isReading;
      this.find('.stop').hidden = progress.hidden = !isReading;
      pace.textContent = '';
    };
    showReading(true);
    this.find('#whole .result').replaceChildren();
    const startedAt = performance.now();
    const onProgress = (entries: number): void => {
      const seconds = (performance.now() - startedAt) / 1_000;
      progress.value = entries / size;
      const left = Math.ceil((seconds * (size - entries)) / entries);
      pace.textContent = `${count(entries)} of ${counted(size, 'event')}, ${counted(left, 'second')} left`;
    };
    try {
      const computed = await rootOfEntries(this.api, size, { signal, onProgress });
      const isSame = computed === root;
      const text = isSame
        ? `The ${counted(size, 'event')} of the log have the root that it signs.`
        : 'The events of the log do not have the root that it signs: the log or its tree was altered. Keep the checkpoint.';
      this.#show('whole', isSame, text, make('p', 'hash', computed));
    } catch (error) {
      if (this.#verified)
        this.#show('whole', false, signal.aborted ? 'Stopped: the log is not checked.' : messageOf(error));
    } finally {
      showReading(false);
    }
  }

  async #checkFile(file: File | undefined): Promise<void> {
    if (!file || !this.#verified) return;
    const { key } = this.#verified;
    try {
      if (file.size > MAX_FILE_BYTES) throw new Error('It is too large for a proof or a checkpoint.');
      const text = decodeUtf8(await file.bytes());
      if (isInclusionProof(text)) {
        const { index, entry, checkpoint } = await openInclusionProof(text, key);
        const shown = longText(visible(entry.toString()));
        await this.#compare(key, checkpoint, `The receipt of event ${count(index + 1)}`, shown);
      } else {
        const note = text.startsWith('old ') ? parseConsistencyProof(text).checkpoint : text;
        const earlier = await openCheckpoint(note, key);
        await this.#compare(key, earlier, `The checkpoint of ${counted(earlier.size, 'event')}`);
      }
    } catch (error) {
      this.#show('evidence', false, `${visible(file.name)}: ${messageOf(error)}`);
    }
  }

  async #compare(key: VerifierKey, earlier: TreeHead, what: string, ...shown: Node[]): Promise<void> {
    const later = await this.#update(key);
    const show = (isGood: boolean, text: string): void =>
      this.#show('evidence', isGood, `${what} ${text}`, ...shown);
    if (later.size < earlier.size) {
      const sizes = `${counted(earlier.size, 'event')}, and now signs ${count(later.size)}`;
      show(false, `is signed, but the log lost events: it has signed ${sizes}. Keep the file.`);
    } else if (verifyConsistency(earlier, later, await this.#proof(earlier.size, later.size))) {
      const size = counted(later.size, 'event');
      show(true, `holds: it is signed, and the log of ${size} still begins with it.`);
    } else {
      const causes = 'events were altered, removed or inserted, or its tiles are false';
      show(false, `is signed, but the log does not begin with it any more: ${causes}. Keep the file.`);
    }
  }

  #proof(from: number, to: number): Promise<string[]> {
    return consistencyProofFromTiles(from, to, (tile) => this.api.getBytes(tilePath(tile)));
  }

  #keep(): void {
    if (!this.#verified) return;
    const { note, checkpoint } = this.#verified;
    saveFile(`checkpoint-${checkpoint.size}`, new Blob([note], { type: 'text/plain' }));
  }

  #show(card: Card, isGood: boolean, text: string, ...more: Node[]): void {
    const line = make('p', isGood ? 'good' : 'bad', isGood ? '✓ ' : '✗ ', visible(text));
    this.find(`#${card} .result`).replaceChildren(line, ...more);
  }

  #forget(): void {
    this.#verified = undefined;
    this.loading.abort();
    for (const result of this.section.querySelectorAll('.result')) result.replaceChildren();
    this.#enable(false);
  }

  #enable(isEnabled: boolean): void {
    this.find('.keep').hidden = !isEnabled;
    this.find<HTMLButtonElement>('.read').disabled = !isEnabled;
    this.find<HTMLInputElement>('[type="file"]').disabled = !isEnabled;
  }
}
