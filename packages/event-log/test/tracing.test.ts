import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { type Context, context, ROOT_CONTEXT, type Span, type Tracer, trace } from '@opentelemetry/api';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type EventStore, NO_STREAM, WrongExpectedRevision } from '../src/eventStore.ts';
import { Follower } from '../src/views/follow.ts';
import { ToDoLists } from './views/toDoLists.ts';

// With a tracer that takes notes, in place of an SDK; test/clients/tracing.test.ts has an SDK.

const [TRACE, SPAN] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`;
const OUTSIDE = trace.setSpanContext(ROOT_CONTEXT, { traceId: TRACE, spanId: SPAN, traceFlags: 1 });

type Started = { name: string; parent: string | undefined; status?: string | undefined; ended: boolean };
let started: Started[];
let active: Context;

beforeEach(() => {
  started = [];
  active = ROOT_CONTEXT;
  const startSpan: Tracer['startSpan'] = (name, _options, parent = active) => {
    const span: Started = { name, parent: trace.getSpanContext(parent)?.spanId, ended: false };
    started.push(span);
    return {
      setStatus: ({ message }: { message?: string }) => Object.assign(span, { status: message }),
      end: () => Object.assign(span, { ended: true }),
    } as unknown as Span;
  };
  const startActiveSpan = ((name: string, run: (span: Span) => unknown) =>
    run(startSpan(name))) as Tracer['startActiveSpan'];
  trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan, startActiveSpan }) });
  context.setGlobalContextManager({
    active: () => active,
    with: (_context, run, self, ...args) => run.call(self as never, ...args),
    bind: (_context, target) => target,
    enable: () => context as never,
    disable: () => context as never,
  });
});
afterEach(() => {
  trace.disable();
  context.disable();
});

/** Appends an item whose metadata has this traceparent. */
const add = (store: EventStore, id: number, traceparent?: string) =>
  store.append(
    `list-home/${id}`,
    {
      id: crypto.randomUUID(),
      type: 'ItemAdded',
      data: { list: 'home', id: `${id}`, title: 'bread' },
      metadata: traceparent === undefined ? {} : { traceparent },
    },
    NO_STREAM,
  );

/** Follows the log until its end. */
async function follow(store: EventStore, dir: string): Promise<void> {
  const view = new ToDoLists(join(dir, 'view.db'));
  const follower = new Follower({ store, view });
  await follower.reached(await store.lastPosition());
  await add(store, 9, TRACEPARENT);
  await follower.reached(await store.lastPosition());
  await follower.stop();
  await view.close();
}

const named = (name: string) => started.filter((span) => span.name === name);

test('an append is a span of the active trace, and an error if it fails', async () => {
  const store = await openIn(tempDir());
  await add(store, 1);
  expect(named('append')).toEqual([]);
  active = OUTSIDE;
  await add(store, 2);
  await expect(add(store, 2)).rejects.toThrow(WrongExpectedRevision);
  expect(named('append')).toEqual([
    { name: 'append', parent: SPAN, ended: true },
    { name: 'append', parent: SPAN, status: 'WrongExpectedRevision', ended: true },
  ]);
});

test('a commit is a span of the trace of each of its events that has a valid one', async () => {
  const store = await openIn(tempDir());
  const invalid = [`00-${'0'.repeat(32)}-${SPAN}-01`, `00-${TRACE}-${'0'.repeat(16)}-01`, TRACE, ''];
  const given = [TRACEPARENT, undefined, ...invalid, TRACEPARENT];
  await Promise.all(given.map((traceparent, i) => add(store, i, traceparent)));
  expect(named('commit')).toEqual(Array(2).fill({ name: 'commit', parent: SPAN, ended: true }));
});

test('a fold is a span of the trace of each event that is newer than the start', async () => {
  const [store, dir] = [await openIn(tempDir()), tempDir()];
  await add(store, 1, TRACEPARENT);
  await follow(store, dir);
  await nextTurn();
  expect(named('fold')).toEqual([{ name: 'fold', parent: SPAN, ended: true }]);
});
