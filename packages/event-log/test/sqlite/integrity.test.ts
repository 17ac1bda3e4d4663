import { join } from 'node:path';
import { appendTo, eventId } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { checkLogFile } from '../../src/sqlite/integrity.ts';

/** The problems of a log with these streams and revisions, in this order. */
async function problemsOf(written: readonly (readonly [stream: string, revision: number])[]) {
  const dir = tempDir();
  appendTo(dir, ...written.map(([stream, revision], i) => ({ stream, revision, id: eventId(i), data: {} })));
  const resources = new AsyncDisposableStack();
  onTestFinished(() => resources.disposeAsync());
  const { signal } = new AbortController();
  return (await checkLogFile(join(dir, 'log.db'), { signal, resources })).problems;
}

const notBefore = (revision: number) => `revision ${revision} of its stream is not before it`;

// a0 is an event of the stream a at revision 0.
test.for<[string, written: string, ...[position: number, problem: string][]]>([
  ['that start at 1', 'a1 a2', [1, notBefore(0)]],
  ['with a gap, which is reported once', 'a0 b0 a2 a3', [3, notBefore(1)]],
  ['in the wrong order', 'a1 b0 a0', [1, notBefore(0)]],
  ['below 0', 'a-1 a0', [1, 'revisions start at 0']],
])('revisions %s are a problem: %s', async ([, written, ...expected]) => {
  const pairs = written.split(' ').map((one) => [one.slice(0, 1), Number(one.slice(1))] as const);
  expect(await problemsOf(pairs)).toEqual(
    expected.map(([position, problem]) => ({ position: BigInt(position), problem })),
  );
});

test('revisions are valid if and only if each stream counts from 0 in log order', async () => {
  const event = fc.tuple(fc.constantFrom('a', 'b'), fc.integer({ min: -1, max: 3 }));
  const written = fc.uniqueArray(event, { selector: (pair) => pair.join(), maxLength: 7 }); // as the index requires
  await fc.assert(
    fc.asyncProperty(written, async (pairs) => {
      const counts = new Map<string, number>();
      const isValid = pairs.every(([stream, revision]) => {
        const next = counts.get(stream) ?? 0;
        counts.set(stream, next + 1);
        return revision === next;
      });
      expect((await problemsOf(pairs)).length === 0).toBe(isValid);
    }),
    { numRuns: 30 },
  );
});
