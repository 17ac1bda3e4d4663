import { consistencyProofFromTiles } from '../../merkle/tiles.ts';
import type { TreeHead } from '../../merkle/treeHead.ts';
import { openCheckpoint, type SignedCheckpoint } from '../../transparency/checkpoint.ts';
import {
  isConsistent,
  isInclusionProof,
  openInclusionProof,
  parseConsistencyProof,
} from '../../transparency/proof.ts';
import { MAX_NOTE_BYTES, parseVerifierKey, type VerifierKey } from '../../transparency/signedNote.ts';
import { type Api, ApiError, messageOf } from './api.ts';
import { fieldValue, find, longText, make, saveFile } from './dom.ts';
import { readTile, rootOfEntries } from './logReader.ts';
import { count, counted, visible } from './text.ts';

/** The largest proof has an entry of 64 KiB in Base64, and a note. */
const MAX_FILE_BYTES = 2 * MAX_NOTE_BYTES;

type Verified = { key: VerifierKey; note: string; checkpoint: SignedCheckpoint };

/** Checks of the log, computed here from the key that the auditor pastes. */
export class Check {
  readonly #section: HTMLElement;
  readonly #api: Api;
  readonly #closed = new AbortController();
  readonly #cards: HTMLElement[];
  #verified: Verified | undefined;
  #reading: AbortController | undefined;

  constructor(section: HTMLElement, api: Api) {
    this.#section = section;
    this.#api = api;
    this.#cards = [...section.querySelectorAll<HTMLElement>('.card')];
    const { signal } = this.#closed;
    const on = (selector: string, name: string, listener: (event: Event) => void): void =>
      find(section, selector).addEventListener(name, listener, { signal });
    on('form.key', 'submit', (event) => {
      event.preventDefault();
      void this.#checkSignature(fieldValue(event.target as HTMLFormElement, 'key'));
    });
    on('.keep', 'click', () => this.#keep());
    on('.read', 'click', () => void this.#readWholeLog());
    on('.stop', 'click', () => this.#reading?.abort());
    on('input[type="file"]', 'change', ({ target }) => {
      const input = target as HTMLInputElement;
      void this.#checkFile(input.files?.[0]);
      input.value = '';
    });
    on('.drop', 'dragover', (event) => event.preventDefault());
    on('.drop', 'drop', (event) => {
      event.preventDefault();
      void this.#checkFile((event as DragEvent).dataTransfer?.files[0]);
    });
  }

  close(): void {
    this.#closed.abort();
    this.#forget();
  }

  /** Says so if the service has no Merkle tree. */
  async show(): Promise<void> {
    const hasTree = (await this.#ownKey()) !== undefined;
    find(this.#section, '.no-tree').hidden = hasTree;
    find(this.#section, '.steps').hidden = !hasTree;
  }

  /** The key that the service states, which another service in its place would state as well. */
  async #ownKey(): Promise<string | undefined> {
    try {
      return (await (await this.#api.get('log-key')).text()).trim();
    } catch (error) {
      return error instanceof ApiError && error.status === 404 ? undefined : '';
    }
  }

  async #checkSignature(text: string): Promise<void> {
    this.#forget();
    const own = await this.#ownKey();
    try {
      if (!isSecureContext) throw new Error('Browsers verify signatures on https and localhost only.');
      const key = parseVerifierKey(text);
      this.#result(
        0,
        own === text,
        own === text
          ? 'The service states the same key.'
          : 'The service states another key. One of them is not that of this log.',
      );
      await this.#update(key);
    } catch (error) {
      const text = lacksEd25519(error)
        ? 'This browser cannot verify signatures: its WebCrypto has no Ed25519. Chrome 137, Firefox 129 and Safari 17 have it.'
        : messageOf(error);
      this.#result(this.#cards[0]?.querySelector('.good, .bad') ? 1 : 0, false, text);
    }
  }

  /** Fetches what the log signs now, and verifies it. @throws NotVerified, ApiError */
  async #update(key: VerifierKey): Promise<SignedCheckpoint> {
    const note = await (await this.#api.get('checkpoint')).text();
    const checkpoint = await openCheckpoint(note, key);
    this.#verified = { key, note, checkpoint };
    const { origin, size, root } = checkpoint;
    const facts = make('dl');
    for (const [name, value] of Object.entries({ Log: origin, Events: count(size), Root: root }))
      facts.append(make('dt', '', name), make('dd', '', make('bdi', '', visible(value))));
    this.#result(1, true, 'The signature is valid.', facts);
    find(this.#section, '.keep').hidden = false;
    for (const control of this.#section.querySelectorAll<HTMLButtonElement>('.read, input[type="file"]'))
      control.disabled = false;
    return checkpoint;
  }

  async #readWholeLog(): Promise<void> {
    if (!this.#verified) return;
    const { size, root } = this.#verified.checkpoint;
    this.#reading = new AbortController();
    const { signal } = this.#reading;
    const [read, stop] = [find(this.#section, '.read'), find(this.#section, '.stop')];
    const progress = find<HTMLProgressElement>(this.#section, 'progress');
    const pace = find(this.#section, '.pace');
    [read.hidden, stop.hidden, progress.hidden] = [true, false, false];
    this.#cards[2]?.querySelector('.result')?.replaceChildren();
    const startedAt = performance.now();
    const onProgress = (entries: number): void => {
      const seconds = (performance.now() - startedAt) / 1_000;
      progress.value = entries / size;
      const left = Math.ceil((seconds * (size - entries)) / entries);
      pace.textContent = `${count(entries)} of ${counted(size, 'event')}, ${counted(left, 'second')} left`;
    };
    try {
      const computed = await rootOfEntries(this.#api, size, { signal, onProgress });
      const isSame = computed === root;
      const text = isSame
        ? `The ${counted(size, 'event')} of the log have the root that it signs.`
        : 'The events of the log do not have the root that it signs: the log or its tree was altered. Keep the checkpoint.';
      this.#result(2, isSame, text, make('p', 'hash', computed));
    } catch (error) {
      if (!this.#closed.signal.aborted)
        this.#result(2, false, signal.aborted ? 'Stopped: the log is not checked.' : messageOf(error));
    } finally {
      [read.hidden, stop.hidden, progress.hidden] = [false, true, true];
      pace.textContent = '';
    }
  }

  async #checkFile(file: File | undefined): Promise<void> {
    if (!file || !this.#verified) return;
    const { key } = this.#verified;
    try {
      if (file.size > MAX_FILE_BYTES) throw new Error('It is too large for a proof or a checkpoint.');
      const text = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true }).decode(
        await file.arrayBuffer(),
      );
      if (isInclusionProof(text)) await this.#checkReceipt(text, key);
      else {
        const note = text.startsWith('old ') ? parseConsistencyProof(text).checkpoint : text;
        const earlier = await openCheckpoint(note, key);
        await this.#compare(earlier, `The checkpoint of ${counted(earlier.size, 'event')}`);
      }
    } catch (error) {
      this.#result(3, false, `${visible(file.name)}: ${messageOf(error)}`);
    }
  }

  async #checkReceipt(text: string, key: VerifierKey): Promise<void> {
    const { index, entry, checkpoint } = await openInclusionProof(text, key);
    const shown = make('pre');
    shown.tabIndex = 0;
    longText(shown, visible(entry.toString()));
    await this.#compare(checkpoint, `The receipt of event ${count(index + 1)}`, shown);
  }

  /** Shows whether what was signed earlier is the beginning of what the log signs now. */
  async #compare(earlier: TreeHead, what: string, ...shown: Node[]): Promise<void> {
    const later = await this.#update((this.#verified as Verified).key);
    if (later.size < earlier.size) {
      const sizes = `${counted(earlier.size, 'event')}, and now signs ${count(later.size)}`;
      this.#result(
        3,
        false,
        `${what} is signed, but the log lost events: it has signed ${sizes}. Keep the file.`,
        ...shown,
      );
      return;
    }
    const path =
      earlier.size === 0
        ? []
        : await consistencyProofFromTiles(earlier.size, later.size, (tile) => readTile(this.#api, tile));
    const holds = isConsistent(earlier, later, path);
    const text = holds
      ? `${what} holds: it is signed, and the log of ${counted(later.size, 'event')} still begins with it.`
      : `${what} is signed, but the log does not begin with it any more: events were altered, removed or inserted, or its tiles are false. Keep the file.`;
    this.#result(3, holds, text, ...shown);
  }

  #keep(): void {
    if (!this.#verified) return;
    const { note, checkpoint } = this.#verified;
    saveFile(`checkpoint-${checkpoint.size}`, new Blob([note], { type: 'text/plain' }));
  }

  /** Shows the result of a card. */
  #result(card: number, isGood: boolean, text: string, ...more: Node[]): void {
    const line = make('p', isGood ? 'good' : 'bad', visible(text));
    find(this.#cards[card] as HTMLElement, '.result').replaceChildren(line, ...more);
  }

  #forget(): void {
    this.#verified = undefined;
    this.#reading?.abort();
    for (const result of this.#section.querySelectorAll('.result')) result.replaceChildren();
    find(this.#section, '.keep').hidden = true;
    for (const control of this.#section.querySelectorAll<HTMLButtonElement>('.read, input[type="file"]'))
      control.disabled = true;
  }
}

/** Whether WebCrypto refused the algorithm (https://www.w3.org/TR/webcrypto-2/#dfn-normalize-an-algorithm). */
function lacksEd25519(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'NotSupportedError';
}
