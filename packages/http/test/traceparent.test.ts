import { type Context, context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { expect, onTestFinished, test } from 'vitest';
import { activeTraceparent, readTraceparent } from '../src/traceparent.ts';

const [TRACE, PARENT] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const parsed = (traceparent: string | undefined) => readTraceparent({ traceparent });

test.each(['00', '01', '02', 'ff'])('a valid traceparent with the flags %s is taken as it is', (flags) => {
  const traceparent = `00-${TRACE}-${PARENT}-${flags}`;
  expect(parsed(traceparent)).toBe(traceparent);
});

test.each([
  ['01', '01', '-what-a-later-version-adds', '01'],
  ['cc', 'ff', '', '01'],
  ['fe', '02', '-', '00'],
])('of the later version %s, what version 00 has is taken', (version, flags, rest, kept) => {
  expect(parsed(`${version}-${TRACE}-${PARENT}-${flags}${rest}`)).toBe(`00-${TRACE}-${PARENT}-${kept}`);
});

test.each([
  ['absent', undefined],
  ['of version ff', `ff-${TRACE}-${PARENT}-01`],
  ['without a trace ID', `00-${'0'.repeat(32)}-${PARENT}-01`],
  ['without a parent ID', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['in upper case', `00-${TRACE.toUpperCase()}-${PARENT}-01`],
  ['of version 00 and longer', `00-${TRACE}-${PARENT}-01-more`],
  ['of a later version, and longer without a hyphen', `01-${TRACE}-${PARENT}-01more`],
  ['given twice', `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`],
  ['followed by a line', `00-${TRACE}-${PARENT}-01\n`],
  ['long', `00-${'4'.repeat(10_000)}`],
])('a traceparent that is %s is ignored', (_, text) => {
  expect(parsed(text)).toBeUndefined();
});

/** As if an SDK had set the active context, until the end of the test. */
function activate(active: Context): void {
  context.setGlobalContextManager({ active: () => active, disable: () => {} } as never);
  onTestFinished(() => context.disable());
}

test.each([0, 1])(
  'the active span, with the flags %i, comes before the traceparent of the request',
  (flags) => {
    const span = { traceId: TRACE, spanId: 'b7ad6b7169203331', traceFlags: flags };
    activate(trace.setSpanContext(ROOT_CONTEXT, span));
    const traceparent = `00-${TRACE}-${PARENT}-01`;
    expect(activeTraceparent({ traceparent })).toBe(`00-${TRACE}-b7ad6b7169203331-0${flags}`);
  },
);

test('without a valid active span, the traceparent of the request is taken', () => {
  const traceparent = `00-${TRACE}-${PARENT}-01`;
  expect(activeTraceparent({ traceparent })).toBe(traceparent);
  activate(trace.setSpanContext(ROOT_CONTEXT, { traceId: '0', spanId: '0', traceFlags: 1 }));
  expect(activeTraceparent({ traceparent })).toBe(traceparent);
});
