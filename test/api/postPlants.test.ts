import { refusalIn, refusedWith } from '@event-sourced/testing/refusal';
import { describe, expect, test } from 'vitest';
import type { RecordedEvent } from '../../packages/event-log/src/eventStore.ts';
import { eventText } from '../../packages/transparency-log/src/digest/eventText.ts';
import { logIn } from '../../packages/transparency-log/test/support/tree.ts';
import { serviceOfFile } from '../support/service.ts';

const { as, dir, events } = await serviceOfFile();
const fern = { name: 'Fern', tag: 'indoor' };

describe('creating a plant', () => {
  test('returns the plant: name, and tag if it was given', async () => {
    const alice = as('alice of responses');
    const tagged = await alice.create(1, fern);
    expect([tagged.status, await tagged.text()]).toEqual([200, '{"name":"Fern","tag":"indoor"}']);
    expect(tagged.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(tagged.headers.get('cache-control')).toBe('no-store');
    const plain = await alice.create(2, { name: '' });
    expect([plain.status, await plain.text()]).toEqual([200, '{"name":""}']);
  });

  test('keeps a valid traceparent in the metadata of the event, after the others', async () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const alice = as('alice of traces');
    for (const [id, given] of [traceparent, 'a'.repeat(8_000)].entries())
      expect((await alice.post(`{"id":${id},"name":"Fern"}`, { traceparent: given })).status).toBe(200);
    const [valid, malformed] = events('alice of traces').map(({ metadata }) => metadata);
    expect(Object.entries(valid ?? {}).at(-1)).toEqual(['traceparent', traceparent]);
    expect(malformed).not.toHaveProperty('traceparent');
  });

  test('ignores unknown fields and does not store them', async () => {
    const alice = as('alice of unknown fields');
    const response = await alice.post(
      '{"id":1,"user":"bob","name":"Fern","colour":"green","constructor":{"prototype":{}},"tags":["indoor"]}',
    );
    expect([response.status, await response.json()]).toEqual([200, { name: 'Fern' }]);
    expect(events('alice of unknown fields').map(({ data }) => data)).toEqual([
      { id: '1', user: 'alice of unknown fields', name: 'Fern' },
    ]);
    expect(await alice.list()).toEqual([{ name: 'Fern' }]);
  });

  test('takes the last of duplicate fields', async () => {
    const response = await as('alice of two names').post('{"id":1,"name":"Oak","name":"Fern"}');
    expect(await response.json()).toEqual({ name: 'Fern' });
  });
});

describe('creating it again', () => {
  test.each([
    ['with the same text', '{"id":7,"name":"Fern","tag":"indoor"}'],
    ['in another order', '{"tag":"indoor","name":"Fern","id":7}'],
    ['with the id in another form', '{"id":70e-1,"name":"Fern","tag":"indoor"}'],
    ['with an unknown field', '{"id":7,"name":"Fern","tag":"indoor","colour":"green"}'],
  ])('returns the same and appends no event: %s', async (how, body) => {
    const user = `alice who repeats ${how}`;
    const first = await as(user).create(7, fern);
    const again = await as(user).post(body);
    expect([again.status, await again.json()]).toEqual([200, fern]);
    expect(again.headers.get('log-position')).toBe(first.headers.get('log-position'));
    expect([first, again].map(({ headers }) => headers.get('plant-created'))).toEqual(['true', 'false']);
    expect(again.headers.get('request-id')).not.toBe(first.headers.get('request-id'));
    expect(events(user)).toHaveLength(1);
  });

  test('with other content is 40003 and appends no event', async () => {
    const alice = as('alice who changes');
    const first = await alice.create(7, fern);
    const refused = await alice.create(7, { name: 'Fern' });
    expect(refused.headers.has('plant-created')).toBe(false);
    expect(refused.headers.get('log-position')).toBe(first.headers.get('log-position'));
    expect(await refusedWith(40003, refused)).toMatch(/\bID\b/);
    expect(events('alice who changes')).toHaveLength(1);
    expect(await alice.list()).toEqual([fern]);
  });
});

test('of two plants that are created concurrently with one ID one succeeds, and the other is 40003', async () => {
  const bob = as('bob of races');
  const winners: string[] = [];
  for (let id = 1; id <= 20; id++) {
    const responses = await Promise.all([
      bob.create(id, { name: `Oak ${id}` }),
      bob.create(id, { name: `Elm ${id}` }),
    ]);
    const [winner, loser] = responses.toSorted((a, b) => a.status - b.status) as [Response, Response];
    expect(winner.status).toBe(200);
    winners.push(((await winner.json()) as { name: string }).name);
    await refusedWith(40003, loser);
  }
  expect((await bob.list()).map(({ name }) => name)).toEqual(winners);
  expect(events('bob of races')).toHaveLength(20);
});

test.each([
  ['id', '{"id":9223372036854775808,"name":"Fern"}'],
  ['id', '{"id":-9223372036854775809,"name":"Fern"}'],
  ['id', '{"id":1.5,"name":"Fern"}'],
  ['id', '{"id":"5","name":"Fern"}'],
  ['id', '{"id":null,"name":"Fern"}'],
  ['id', '{"ID":1,"name":"Fern"}'],
  ['name', '{"id":1}'],
  ['name', '{"id":1,"name":["Fern"]}'],
  ['name', '{"id":1,"name":9007199254740993}'],
  ['tag', '{"id":1,"name":"Fern","tag":null}'],
  ['body', '[{"id":1,"name":"Fern"}]'],
  ['body', 'null'],
  ['body', '9007199254740993'],
])('a body that violates NewPlant is 40002 and names the field: %s, in %s', async (field, body) => {
  const message = await refusedWith(40002, await as('alice of faults').post(body));
  expect(message).toMatch(new RegExp(`\\b${field}\\b.*\\.$`));
  expect(message).not.toContain('undefined');
  expect(events('alice of faults')).toEqual([]);
});

test('40002 names all invalid fields', async () => {
  const { error, message, details } = await refusalIn(
    await as('alice of faults').post('{"name":5,"tag":null}'),
  );
  expect([error, message]).toEqual([40002, 'id is required; name must be a string; tag must be a string.']);
  expect(details).toEqual([
    { field: 'id', message: 'is required' },
    { field: 'name', message: 'must be a string' },
    { field: 'tag', message: 'must be a string' },
  ]);
});

// packages/http/test/exactJson.test.ts has more of them.
test.each([
  ['an empty body', ''],
  ['the key __proto__', '{"id":1,"name":"Fern","__proto__":{"tag":"indoor"}}'],
  ['Latin-1', new Uint8Array(Buffer.from('{"id":1,"name":"Köln"}', 'latin1'))],
])('a body that cannot be parsed exactly is 40001: %s', async (_, body) => {
  await refusedWith(40001, await as('bob of faults').post(body));
  expect(events('bob of faults')).toEqual([]);
});

describe('the media type', () => {
  test.each([
    'Application/JSON',
    'application/json ; Charset="Utf-8"',
    'application/json; profile="https://example.org/plant"',
    'application/json; charset=utf8',
    'application/json;charset="u\\tf-8";',
    'application/json; profile="a;charset=latin1\\""; charset=unicode-1-1-utf-8',
  ])('may be %s', async (type) => {
    const response = await as(`alice of ${type}`).post('{"id":1,"name":"Fern"}', { 'content-type': type });
    expect([response.status, await response.json()]).toEqual([200, { name: 'Fern' }]);
  });

  test.each([
    ['content-type', 'application/json; charset=iso-8859-1'],
    ['content-type', 'application/json; charset="utf-16"'],
    ['content-type', 'application/json; charset=plants'],
    ['content-type', 'application/jsonp'],
    ['content-type', 'multipart/form-data; boundary=x'],
    ['content-type', 'nonsense'],
    ['content-type', ''],
    ['content-encoding', 'GZIP'],
    ['content-encoding', 'identity, gzip'],
  ])('may not have %s: %s', async (name, value) => {
    const alice = as('alice of types');
    await refusedWith(41501, await alice.post('{"id":1,"name":"Fern"}', { [name]: value }));
    expect(events('alice of types')).toEqual([]);
  });

  test.each([
    ['with a body', new Uint8Array(Buffer.from('{"id":1,"name":"Fern"}'))],
    ['without a body', undefined],
  ])('must be there, %s', async (_, body) => {
    const refused = await as('alice of types').request('/plants', { method: 'POST', ...(body && { body }) });
    await refusedWith(41501, refused);
    expect(events('alice of types')).toEqual([]);
  });
});

const LARGEST = 60 * 1024;
let users = 0;

test.each([
  ['letters', 'x'],
  ['characters of two bytes', 'ü'],
  ['characters of three bytes', '\u2028'],
  ['characters of four bytes', '🌱'],
  ['DEL', '\u007f'],
  ['escaped quotes', '\\"'],
  ['short escapes', '\\n'],
  ['escaped control characters', '\\u001f'],
  ['escaped surrogates', '\\ud83c\\udf31'],
])('a body of 60 KiB of %s, of the user with the longest name, is stored whole', async (_, fill) => {
  const user = `${'\u2028'.repeat(254)}${String.fromCharCode(0x4e00 + ++users)}`;
  const [before, after] = [`{"id":${-(2n ** 63n)},"name":"`, '"}'];
  const room = LARGEST - before.length - after.length;
  const count = Math.floor(room / Buffer.byteLength(fill));
  const name = fill.repeat(count) + 'x'.repeat(room - count * Buffer.byteLength(fill));
  const body = before + name + after;
  expect(Buffer.byteLength(body)).toBe(LARGEST);
  expect((await as(user).post(body)).status).toBe(200);
  const { text, isCanonical } = eventText(await lastEvent());
  expect(JSON.parse(text).data.name).toBe(JSON.parse(body).name);
  expect(isCanonical).toBe(true);
});

async function lastEvent(): Promise<RecordedEvent> {
  const log = logIn(dir);
  return (await log.readEvent(await log.lastPosition())) as RecordedEvent;
}

test.each([
  ['an invalid plant', '{"id":"5"}', 'application/json'],
  ['another media type', 'id: 5', 'text/yaml'],
  ['a body that is too large', ' '.repeat(70_000), 'application/json'],
])('Log-Position is in the response to %s, too', async (_, body, type) => {
  const created = await as('alice of positions').create(1, fern);
  const refused = await as('bob of positions').post(body, { 'content-type': type });
  expect(refused.ok).toBe(false);
  expect(created.headers.get('log-position')).toMatch(/./);
  expect(refused.headers.get('log-position')?.split('.')[0]).toBe(
    created.headers.get('log-position')?.split('.')[0],
  );
});
