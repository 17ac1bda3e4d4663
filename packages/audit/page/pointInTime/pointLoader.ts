import { EVENTS_ERASED } from '@event-sourced/event-log/erasure';
import type { Entity } from '../../src/entityType.ts';
import type { Api } from '../api.ts';
import type { Entities } from '../entities.ts';
import { namesOf, parseEvent, readPage, replayLines } from '../events.ts';
import { toProblem } from '../problem.ts';
import { queryOf } from '../route.ts';
import type { State } from '../state.ts';
import type { Change } from '../states.ts';
import type { Store } from '../store.ts';
import { parseTime } from '../text.ts';
import { NO_STATES, type PointState, ROWS, type Users } from './pointState.ts';

/** The page offers the users of this number of newest events. */
const MAX_EVENTS = 1_000;

type Context = { api: Api; entities: Entities; store: Store<State> };

/** Reads the events of a user, from which the entities at a point in time follow. */
export class PointLoader {
  readonly #context: Context;
  #loading = new AbortController();

  constructor(context: Context) {
    this.#context = context;
  }

  get #state(): PointState {
    return this.#context.store.state.pointInTime;
  }

  #set(pointInTime: PointState): void {
    this.#context.store.set({ pointInTime });
  }

  /** Shows the entities of a user at a time, by default after the last event; without a user, lists users to choose. */
  async show(): Promise<void> {
    this.#loading.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    const { problem: _, ...shown } = this.#state;
    this.#set({ ...shown, status: 'loading' });
    try {
      const { route, zone } = this.#context.store.state;
      const query = queryOf(route, zone);
      const [user, at] = [query.get('user'), query.get('at')];
      if (user === null) await this.#showUsers(signal);
      else if (this.#isStep(user, at)) return this.#showAt(parseTime(at));
      else await this.#showUser(user, at, signal);
      await this.#showErased(signal); // last: it reads the whole log
    } catch (error) {
      if (!signal.aborted) this.#set({ ...NO_STATES, status: 'failed', problem: toProblem(error) });
    }
  }

  async #showUsers(signal: AbortSignal): Promise<void> {
    const { api, entities } = this.#context;
    const { events } = await readPage(api, `order=descending&limit=${MAX_EVENTS}`, signal);
    const counts = new Map<string, number>();
    for (const { subject } of events) {
      const { user } = entities.parse(subject) ?? {};
      if (user !== undefined) counts.set(user, (counts.get(user) ?? 0) + 1);
    }
    const users: Users = { counts: [...counts].sort(([, a], [, b]) => b - a), events: events.length };
    this.#set({ ...NO_STATES, users, status: 'shown' });
  }

  async #showUser(user: string, at: string | null, signal: AbortSignal): Promise<void> {
    const changes = await this.#read(user, signal);
    const times = [...new Set(changes.map(({ time }) => time).filter(Number.isFinite))].sort((a, b) => a - b);
    const { users } = this.#state;
    const shown = { user, changes, times, at: at === null ? (times.at(-1) ?? 0) : parseTime(at) };
    this.#set({ status: 'shown', rows: ROWS, shown, ...(users && { users }) });
  }

  /** Whether the events up to this time are known. */
  #isStep(user: string, at: string | null): boolean {
    const { shown } = this.#state;
    return shown?.user === user && parseTime(at) <= (shown.times.at(-1) ?? Number.NaN);
  }

  #showAt(at: number): void {
    const { shown } = this.#state;
    if (shown) this.#set({ ...this.#state, status: 'shown', shown: { ...shown, at }, rows: ROWS });
  }

  /** Says how many events of the log are erased, of any user: the log does not name them. */
  async #showErased(signal: AbortSignal): Promise<void> {
    let erased = 0;
    for await (const line of replayLines(this.#context.api, { type: EVENTS_ERASED }, signal))
      erased += namesOf(parseEvent(line))?.length ?? 0;
    if (!signal.aborted) this.#set({ ...this.#state, erased });
  }

  async #read(user: string, signal: AbortSignal): Promise<Change[]> {
    const { api, entities } = this.#context;
    const changes: Change[] = [];
    const states = new Map<string, Entity | undefined>();
    for await (const line of replayLines(api, { user }, signal)) {
      const { type, revision, data, time, subject } = parseEvent(line);
      const stream = entities.parse(subject);
      if (stream?.user !== user) continue;
      const change = { id: stream.id, type, revision, data, time };
      const before = states.get(change.id);
      const entity = entities.evolve(before, change);
      if (entity === before) continue;
      states.set(change.id, entity);
      changes.push(change);
    }
    signal.throwIfAborted();
    return changes;
  }

  showMore(): void {
    this.#set({ ...this.#state, rows: this.#state.rows + ROWS });
  }

  close(): void {
    this.#loading.abort();
  }
}
