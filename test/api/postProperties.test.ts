import { anyJson } from '@event-sourced/testing/anyJson';
import { refusalIn } from '@event-sourced/testing/refusal';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { serviceOfFile } from '../support/service.ts';

const { as, events } = await serviceOfFile();

let runs = 0;
/** A new user. */
const newUser = (): string => `user ${++runs}`;

/** Any UTF-16, with many surrogates. */
const text = fc
  .array(
    fc.oneof(
      fc.integer({ min: 0, max: 0xffff }),
      fc.integer({ min: 0xd7ff, max: 0xe000 }),
      fc.integer({ max: 0x7f, min: 0 }),
    ),
    { maxLength: 40 },
  )
  .map((units) => String.fromCharCode(...units));
const wellFormed = text.map((one) => one.toWellFormed());
/** JSON text with each code unit as an escape. */
const escaped = (one: string): string =>
  `"${Array.from({ length: one.length }, (_, i) => `\\u${one.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`;

test('any well-formed name and tag are returned unchanged', async () => {
  const plant = fc.record({ name: wellFormed, tag: wellFormed }, { requiredKeys: ['name'] });
  await fc.assert(
    fc.asyncProperty(plant, fc.boolean(), async ({ name, tag }, asEscapes) => {
      const write = asEscapes ? escaped : JSON.stringify;
      const user = as(newUser());
      await as('bob').create(runs, { name: 'Oak' });
      const expected = tag === undefined ? { name } : { name, tag };
      const fields = Object.entries(expected).map(([field, value]) => `"${field}":${write(value)}`);
      const created = await user.post(`{"id":1,${fields}}`);
      expect([created.status, await created.json()]).toEqual([200, expected]);
      expect(await user.list()).toStrictEqual([expected]);
    }),
    { numRuns: 20 },
  );
});

function isNewPlant(value: unknown): boolean {
  const { id, name, tag = '' } = Object(value) as Record<string, unknown>;
  const isInt64 = typeof id === 'number' && Number.isInteger(id) && id >= -(2 ** 63) && id < 2 ** 63;
  return !Array.isArray(value) && isInt64 && typeof name === 'string' && typeof tag === 'string';
}

test('any JSON that violates NewPlant is 400, and nothing is appended', async () => {
  const part = fc.oneof(anyJson(), fc.maxSafeInteger(), fc.constant('Fern'));
  const nearly = fc.record({ id: part, name: part, tag: part }, { requiredKeys: [] });
  const other = fc.oneof(anyJson(), nearly).filter((value) => !isNewPlant(value));
  await as('bob who knows').create(1, { name: 'Oak' });
  await fc.assert(
    fc.asyncProperty(other, async (value) => {
      const refused = await as('alice').post(JSON.stringify(value));
      expect(refused.status).toBe(400);
      const { error, message } = await refusalIn(refused);
      expect([40001, 40002]).toContain(error);
      if (error === 40001) expect(message).toContain('__proto__');
    }),
    { numRuns: 40 },
  );
  expect(events('alice')).toEqual([]);
});

test('users list only their own plants, whatever their names', async () => {
  const piece = fc.constantFrom('a', 'b', '-', '/', '/1', '%', '%2F', '🌱', '.', ' ', 'plant-', '1', '-1');
  const suffix = fc.oneof(
    piece,
    fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join('')),
  );
  const suffixes = fc.uniqueArray(suffix, { minLength: 2, maxLength: 6 });
  const id = fc.constantFrom(1, -1, 11);
  await fc.assert(
    fc.asyncProperty(suffixes, fc.array(id, { minLength: 6, maxLength: 6 }), async (all, ids) => {
      const first = `a${++runs}.`; // each run has its own users, which are still prefixes of one another
      const users = all.map((one) => first + one);
      const created = await Promise.all(users.map((user, i) => as(user).create(ids[i] ?? 1, { name: user })));
      expect(created.map(({ status }) => status)).toEqual(users.map(() => 200));
      for (const user of users) expect(await as(user).list()).toEqual([{ name: user }]);
    }),
    { numRuns: 15 },
  );
});
