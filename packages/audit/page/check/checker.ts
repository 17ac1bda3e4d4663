import {
  type Checkpoint,
  NotVerified,
  openCheckpoint,
  parseVerifierKey,
  type TileOrEntries,
  tilePath,
  type VerifierKey,
} from '@event-sourced/tlog';
import { type Api, isNotFound, pause } from '../api.ts';
import { replayLines } from '../events.ts';
import { readLog } from '../readLog.ts';
import type { State } from '../state.ts';
import type { Store } from '../store.ts';
import { counted, visible } from '../text.ts';
import { type Card, type CheckState, NOT_CHECKED, type Result } from './checkState.ts';
import { checkFile } from './evidence.ts';
import { failure, unknown } from './failures.ts';

const CHECKPOINT_INTERVAL_MS = 1_000;
const PROGRESS_INTERVAL_MS = 100;

type Context = { api: Api; store: Store<State> };

/** Checks of the log, computed in the browser from the key that the auditor pastes. */
export class Checker {
  readonly #api: Api;
  readonly #store: Store<State>;
  #reading = new AbortController();

  constructor({ api, store }: Context) {
    this.#api = api;
    this.#store = store;
  }

  get #state(): CheckState {
    return this.#store.state.check;
  }

  #set(parts: Partial<CheckState>): void {
    this.#store.set({ check: { ...this.#state, ...parts } });
  }

  /** Finds out whether the service has a tree. */
  async show(): Promise<void> {
    const hasTree = await this.#ownKey().then(
      (key) => key !== undefined,
      () => true, // the check will say that it cannot be asked
    );
    this.#set({ hasTree });
  }

  /** The key that the service states; undefined without a tree. An impostor could state it as well. */
  async #ownKey(): Promise<string | undefined> {
    const own = await this.#api.getText('log-key').catch((error) => {
      if (!isNotFound(error)) throw error;
    });
    if (own === undefined) return undefined;
    try {
      parseVerifierKey(own);
    } catch {
      throw new Error(
        "/log-key could not be asked: the answer is no key, so it is not the service's. Try again",
      );
    }
    return own.trim();
  }

  /** Forgets all results, and checks the key and the checkpoint that the service shows. */
  async checkSignature(text: string): Promise<void> {
    this.#reading.abort();
    const { hasTree = true } = this.#state;
    this.#store.set({ check: { ...NOT_CHECKED, hasTree } });
    let key: VerifierKey;
    try {
      if (!isSecureContext) throw new Error('Browsers verify signatures on https and localhost only.');
      key = parseVerifierKey(text);
    } catch (error) {
      return this.#show('key', failure(error, 'key'));
    }
    this.#set({ key });
    const card = await this.#compareKeys(text.trim()).catch((error) => failure(error, 'key'));
    if (this.#state.key !== key) return;
    this.#show('key', card);
    await this.update(key).catch(() => {});
  }

  async #compareKeys(text: string): Promise<Result> {
    const own = await this.#ownKey();
    if (own === text) return { verdict: 'good', text: 'The service states the same key.' };
    if (own === undefined) return unknown('The service has no Merkle tree, so it states no key.');
    return {
      verdict: 'bad',
      topic: 'key',
      text: 'The service states a different key. One of them is not the key of this log.',
      facts: [['The service states', visible(own)]],
    };
  }

  /** Verifies the newest checkpoint, and shows what it found. @throws Error */
  async update(key: VerifierKey, signal?: AbortSignal): Promise<Checkpoint> {
    try {
      const note = await this.#api.getText('checkpoint', signal ? { signal } : {});
      const checkpoint = await openCheckpoint(note, key);
      this.#assertSubmitted(key);
      this.#set({ checkpoint });
      this.#show('checkpoint', { verdict: 'good', text: 'The signature is valid.' });
      return checkpoint;
    } catch (error) {
      const isUnsigned = error instanceof NotVerified && error.kind === 'unsigned'; // the key has not signed this log
      const result = failure(error, 'key');
      if (this.#state.key === key && !signal?.aborted)
        this.#show('checkpoint', isUnsigned ? { ...result, verdict: 'bad', topic: 'key' } : result);
      throw error;
    }
  }

  /** Compares all events with the tree that is signed. */
  async readWholeLog(): Promise<void> {
    const { key, checkpoint } = this.#state;
    if (!key || !checkpoint) return;
    this.#reading.abort();
    this.#reading = new AbortController();
    const { signal } = this.#reading;
    const startedAt = performance.now();
    const { whole: _, ...results } = this.#state.results;
    this.#set({ results, reading: { events: 0, size: checkpoint.size, startedAt } });
    let shownAt = startedAt;
    const onProgress = (events: number, size: number): void => {
      if (performance.now() - shownAt < PROGRESS_INTERVAL_MS || signal.aborted) return;
      shownAt = performance.now();
      this.#set({ reading: { events, size, startedAt } });
    };
    const api = this.#api;
    try {
      const compared = await readLog(checkpoint, {
        read: (tile: TileOrEntries) => api.getBytes(tilePath(tile), { signal }),
        lines: (query) => replayLines(api, query, signal),
        newest: () => this.update(key, signal),
        async pause() {
          await pause(CHECKPOINT_INTERVAL_MS, signal);
          signal.throwIfAborted();
        },
        onProgress,
      });
      signal.throwIfAborted();
      this.#set({ compared, reading: undefined });
      const text = `The ${counted(compared.size, 'event')} of the log have the root that it signs.`;
      this.#show('whole', { verdict: 'good', text });
    } catch (error) {
      if (this.#state.key !== key) return;
      this.#set({ reading: undefined });
      this.#show(
        'whole',
        signal.aborted ? unknown('Stopped: the log is not checked.') : failure(error, 'tiles'),
      );
    }
  }

  stop(): void {
    this.#reading.abort();
  }

  /** Checks a receipt or a checkpoint. */
  async checkFile(file: File | undefined): Promise<void> {
    const { key, checkpoint } = this.#state;
    if (!file || !key || !checkpoint) return;
    const { evidence: _, ...results } = this.#state.results;
    this.#set({ results });
    const result = await checkFile(file, key, { api: this.#api, newest: () => this.update(key) });
    if (this.#state.key !== key) return;
    const { receipt } = result;
    if (receipt) this.#set({ receipts: new Map([...this.#state.receipts, [receipt.index, receipt]]) });
    this.#show('evidence', result);
  }

  #show(card: Card, result: Result): void {
    const results = { ...this.#state.results, [card]: result };
    this.#set({ results, checkedAt: Date.now() });
  }

  /** Results for one key must not be shown with another key. @throws Error */
  #assertSubmitted(key: VerifierKey): void {
    if (this.#state.key !== key) throw new Error('A different key was submitted meanwhile.');
  }

  close(): void {
    this.#reading.abort();
  }
}
