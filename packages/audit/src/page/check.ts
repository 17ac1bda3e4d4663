import {
  type Checkpoint,
  consistencyProofFromTiles,
  decodeTextFile,
  formatTreeHead,
  formatVerifierKey,
  isInclusionProof,
  MAX_PROOF_BYTES,
  NotVerified,
  openCheckpoint,
  parseConsistencyProof,
  parseVerifierKey,
  TileMismatch,
  type TileOrEntries,
  type TreeHead,
  tilePath,
  type VerifierKey,
  verifyConsistency,
} from '@event-sourced/tlog';
import { openReceipt, type Receipt } from '@event-sourced/transparency-log/digest';
import { ApiError, errorMessage, pause } from './api.ts';
import { button, copyButton, facts, link, make, saveFile } from './dom.ts';
import { contradictionFacts, eventFacts, mismatchFacts } from './entryFacts.ts';
import { replayLines } from './events.ts';
import { type ComparedLog, Contradiction, readLog } from './readLog.ts';
import { type Context, Screen } from './screen.ts';
import { count, counted, visible } from './text.ts';

const CHECKPOINT_INTERVAL_MS = 1_000;
const MAX_LISTED = 20;

type Card = 'key' | 'checkpoint' | 'whole' | 'evidence';
/** The paragraph of the help about an alarm. */
type Topic = 'key' | Contradiction['topic'];

/** Checks of the log, computed in the browser from the key that the auditor pastes. */
export class Check extends Screen {
  readonly #context: Context;
  /** The key that was submitted last. */
  #key: VerifierKey | undefined;
  /** The latest checkpoint with a valid signature of this key. */
  #checkpoint: Checkpoint | undefined;
  /** The signed tree head that the events were compared with last: the log may have grown since. */
  #compared: ComparedLog | undefined;
  /** The receipts that were given: the indices of events, and what records name as erased, by the index of the record. */
  readonly #events = new Set<number>();
  readonly #records = new Map<number, readonly number[]>();
  /** What each card has found since the key was submitted: whether the check passed, or the text of an alarm. */
  readonly #found = new Map<Card, true | { alarm: string; topic: Topic }>();

  constructor(section: HTMLElement, context: Context) {
    super(section, context);
    this.#context = context;
    this.find('form').onsubmit = () => this.#checkSignature(this.field('key').value.trim());
    this.find('.read').onclick = () => this.#readWholeLog();
    const input = this.find<HTMLInputElement>('[type="file"]');
    input.onchange = () => {
      void this.#checkFile(input.files?.[0]);
      input.value = '';
    };
    this.find('.choose').onclick = () => input.click();
    const drop = this.find('.drop');
    drop.ondragover = (event) => event.preventDefault();
    drop.ondrop = (event) => {
      event.preventDefault();
      void this.#checkFile(event.dataTransfer?.files[0]);
    };
  }

  protected async show(): Promise<void> {
    const hasTree = (await this.#ownKey()) !== undefined;
    this.find('.no-tree').hidden = hasTree;
    for (const name of ['.lead', '.steps', '.verdict']) this.find(name).hidden = !hasTree;
    this.#showVerdict();
  }

  /** The key that the service states. An impostor could state it as well. */
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
    let key: VerifierKey | undefined;
    try {
      if (!isSecureContext) throw new Error('Browsers verify signatures on https and localhost only.');
      key = this.#key = parseVerifierKey(text);
      const ownKey = await this.#ownKey();
      this.#assertSubmitted(key);
      const states = facts([['The service states', ownKey && visible(ownKey)]]);
      if (text === ownKey) this.#show(card, true, 'The service states the same key.');
      else
        this.#alarm(
          card,
          'key',
          'The service states a different key. One of them is not the key of this log.',
          states,
        );
      card = 'checkpoint';
      await this.#update(key);
    } catch (error) {
      if (this.#key !== key) return;
      // https://www.w3.org/TR/webcrypto-2/#dfn-normalize-an-algorithm
      const lacksEd25519 = error instanceof DOMException && error.name === 'NotSupportedError';
      const text = lacksEd25519
        ? 'This browser cannot verify signatures: its WebCrypto has no Ed25519. Chrome 137, Firefox 129 and Safari 17 have it.'
        : errorMessage(error);
      if (error instanceof NotVerified && card === 'checkpoint') this.#alarm(card, 'key', text);
      else this.#show(card, false, text);
    }
  }

  async #update(key: VerifierKey): Promise<Checkpoint> {
    const checkpoint = await openCheckpoint(await (await this.api.get('checkpoint')).text(), key);
    this.#assertSubmitted(key);
    this.#checkpoint = checkpoint;
    const { origin, size, root, note } = checkpoint;
    const status = make('output', 'status');
    const actions = make(
      'p',
      'actions',
      copyButton('Copy root', root, status),
      copyButton('Copy checkpoint', note, status),
      button('Save checkpoint', () => saveFile(`checkpoint-${size}`, new Blob([note]))),
      status,
    );
    const signed = Object.entries({ Log: visible(origin), Events: count(size), Root: root });
    this.#show('checkpoint', true, 'The signature is valid.', facts(signed), actions);
    this.#enable(true);
    return checkpoint;
  }

  async #readWholeLog(): Promise<void> {
    const key = this.#key;
    if (!key || !this.#checkpoint) return;
    const signal = this.restart();
    const progress = this.find<HTMLProgressElement>('progress');
    const pace = this.find('.pace');
    const showReading = (isReading: boolean): void => {
      const toggle = this.find('.read');
      toggle.textContent = isReading ? 'Stop' : 'Read the whole log';
      toggle.onclick = () => (isReading ? this.loading.abort() : this.#readWholeLog());
      progress.hidden = !isReading;
      pace.textContent = '';
    };
    showReading(true);
    this.find('#whole .result').replaceChildren();
    const startedAt = performance.now();
    const onProgress = (events: number, size: number): void => {
      const seconds = (performance.now() - startedAt) / 1_000;
      progress.value = events / size;
      const left = Math.ceil((seconds * (size - events)) / events);
      pace.textContent = `${count(events)} of ${counted(size, 'event')}, ${counted(left, 'second')} left`;
    };
    const { api } = this;
    try {
      const compared = await readLog(this.#checkpoint, {
        read: (tile: TileOrEntries) => api.getBytes(tilePath(tile), { signal }),
        lines: (query) => replayLines(api, query, signal),
        newest: () => this.#update(key),
        async pause() {
          await pause(CHECKPOINT_INTERVAL_MS, signal);
          signal.throwIfAborted();
        },
        onProgress,
      });
      signal.throwIfAborted();
      this.#compared = compared;
      const size = counted(compared.size, 'event');
      this.#show('whole', true, `The ${size} of the log have the root that it signs.`);
    } catch (error) {
      if (this.#key !== key) return;
      const text = errorMessage(error);
      if (signal.aborted) this.#show('whole', false, 'Stopped: the log is not checked.');
      else if (error instanceof TileMismatch) this.#alarm('whole', 'tiles', text, ...mismatchFacts(error));
      else if (error instanceof Contradiction)
        this.#alarm('whole', error.topic, text, ...contradictionFacts(error));
      else this.#show('whole', false, text);
    } finally {
      showReading(false);
    }
  }

  async #checkFile(file: File | undefined): Promise<void> {
    const key = this.#key;
    if (!file || !key || !this.#checkpoint) return;
    try {
      if (file.size > MAX_PROOF_BYTES) throw new Error('It is too large for a proof or a checkpoint.');
      const text = decodeTextFile(await file.bytes());
      if (isInclusionProof(text)) {
        const receipt = await openReceipt(text, key);
        this.#assertSubmitted(key);
        const { index, names, checkpoint } = receipt;
        if (names) this.#records.set(index, names);
        else this.#events.add(index);
        const what = names ? `The receipt of record ${index}` : `The receipt of the event at index ${index}`;
        await this.#compare(
          key,
          checkpoint,
          what,
          ...this.#erasures(receipt),
          ...eventFacts(receipt, this.#context),
        );
      } else {
        const note = text.startsWith('old ') ? parseConsistencyProof(text).checkpoint : text;
        const earlier = await openCheckpoint(note, key);
        await this.#compare(key, earlier, `The checkpoint of ${counted(earlier.size, 'event')}`);
      }
    } catch (error) {
      if (this.#key !== key) return;
      const help = make('p', '', link('What to do with a file that cannot be checked', '#help?about=file'));
      this.#show('evidence', false, `File ${file.name}: ${errorMessage(error)}`, help);
    }
  }

  /** What a record names as erased, or whether a given record names this event; a receipt stays valid. */
  #erasures({ index, names }: Receipt): Node[] {
    const lines: string[] = [];
    if (names) {
      const listed = names.slice(0, MAX_LISTED).join(', ') + (names.length > MAX_LISTED ? ', …' : '');
      lines.push(`Record ${index} names ${counted(names.length, 'event')} as erased: ${listed}.`);
    }
    for (const [record, erased] of this.#records)
      for (const event of names ? this.#events : [index])
        if ((!names || record === index) && erased.includes(event))
          lines.push(`The event at index ${event} is named as erased by record ${record}.`);
    return lines.map((line) => make('p', '', line));
  }

  async #compare(key: VerifierKey, earlier: TreeHead, what: string, ...shown: Node[]): Promise<void> {
    const later = await this.#update(key);
    const isShorter = later.size < earlier.size;
    const proof = isShorter ? [] : await this.#proof(earlier.size, later.size);
    this.#assertSubmitted(key);
    if (!isShorter && verifyConsistency(earlier, later, proof)) {
      const text = `holds: it is signed, and the log of ${counted(later.size, 'event')} still begins with it.`;
      return this.#show('evidence', true, `${what} ${text}`, ...shown);
    }
    const problem = isShorter
      ? `the log lost events: it has signed ${counted(earlier.size, 'event')}, and now signs ${count(later.size)}`
      : 'the log no longer begins with it: events were altered, removed or inserted, or its tiles are false';
    const heads = { 'Size and root in the file': earlier, 'Size and root of the log': later };
    const roots = Object.entries(heads).map(([name, head]) => [name, formatTreeHead(head)] as const);
    this.#alarm(
      'evidence',
      isShorter ? 'lost' : 'evidence',
      `${what} is signed, but ${problem}.`,
      facts(roots),
      ...shown,
    );
  }

  #proof(from: number, to: number): Promise<string[]> {
    return consistencyProofFromTiles(from, to, (tile) => this.api.getBytes(tilePath(tile)));
  }

  #alarm(card: Card, topic: Topic, text: string, ...more: Node[]): void {
    this.#show(card, false, text, ...more, make('p', '', link('What to do', `#help?about=${topic}`)));
    this.#found.set(card, { alarm: text, topic });
    this.#showVerdict();
  }

  #show(card: Card, isGood: boolean, text: string, ...more: Node[]): void {
    const line = make('p', isGood ? 'good' : 'bad', isGood ? '✓ ' : '✗ ', visible(text));
    this.find(`#${card} .result`).replaceChildren(line, ...more);
    if (isGood) this.#found.set(card, true);
    else this.#found.delete(card);
    this.#showVerdict();
  }

  /** The result of all cards: what was checked, when, and with which key. */
  #showVerdict(): void {
    const verdict = this.find('.verdict');
    const found = [...this.#found.values()].find((one) => one !== true);
    const isGood = this.#found.get('whole') === true;
    const head = isGood ? this.#compared : this.#checkpoint;
    const size = counted(head?.size ?? 0, 'event');
    const { erased = 0, records = 0 } = this.#compared ?? {};
    const areErased =
      erased > 0 ? ` ${count(erased)} of them are erased, on record (${counted(records, 'record')}).` : '';
    verdict.dataset.state = found ? 'alarm' : isGood ? 'good' : '';
    const time = this.zone.format(Date.now());
    const key = this.#key && formatVerifierKey(this.#key);
    const text = found
      ? `✗ The check failed: ${found.alarm}`
      : isGood
        ? `✓ The log is what it signs: all ${size} have the signed root.${areErased}`
        : this.#found.has('checkpoint')
          ? `The signature is valid. The ${size} are not compared with it yet.`
          : 'Nothing is checked yet.';
    const shown =
      this.#key &&
      facts([
        ['Key', key && visible(key)],
        ['Root', head?.root],
        ['Checked', `${time} ${this.zone.name}`],
      ]);
    const help = found && link('What to do', `#help?about=${found.topic}`);
    verdict.replaceChildren(
      make('p', 'outcome', visible(text)),
      ...[help, shown].filter((one) => one !== undefined),
    );
  }

  /** Results for one key must not be shown with another key. @throws Error */
  #assertSubmitted(key: VerifierKey): void {
    if (this.#key !== key) throw new Error('A different key was submitted meanwhile.');
  }

  #forget(): void {
    this.#key = this.#checkpoint = undefined;
    this.loading.abort();
    for (const result of this.section.querySelectorAll('.result')) result.replaceChildren();
    this.#found.clear();
    this.#events.clear();
    this.#records.clear();
    this.#showVerdict();
    this.#enable(false);
  }

  #enable(isEnabled: boolean): void {
    this.find('.steps').classList.toggle('ready', isEnabled);
    for (const name of ['.read', '.choose']) this.find<HTMLButtonElement>(name).disabled = !isEnabled;
  }
}
