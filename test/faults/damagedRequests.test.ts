import { exchange, responsesIn } from '@event-sourced/testing/rawHttp';
import { refusalIn } from '@event-sourced/testing/refusal';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { serviceOfFile } from '../support/service.ts';

const { url, as, bearer, events } = await serviceOfFile();

const REQUESTS = 3_000;
const AT_ONCE = 16;

const HOST = 'Host: plants\r\nConnection: close\r\n';
const JSON_TYPE = 'Content-Type: application/json\r\n';
const known = `Authorization: ${await bearer('mallory')}\r\n`;
/** An invalid plant, so that undamaged requests create no plants. */
const BODY = 'Content-Length: 26\r\n\r\n{"id":"one","name":"Fern"}';
const CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n5\r\n{"id"\r\n15\r\n:"one","name":"Fern"}\r\n0\r\n\r\n';

const valid = [
  `GET /health/live HTTP/1.1\r\n${HOST}\r\n`,
  `GET /plants?limit=3 HTTP/1.1\r\n${HOST}\r\n`,
  `GET /plants?limit=3 HTTP/1.1\r\n${HOST}${known}\r\n`,
  `POST /plants HTTP/1.1\r\n${HOST}${JSON_TYPE}${BODY}`,
  `POST /plants HTTP/1.1\r\n${HOST}${known}${JSON_TYPE}${BODY}`,
  `POST /plants HTTP/1.1\r\n${HOST}${known}${JSON_TYPE}${CHUNKED}`,
];

const METHODS = 'get|PLANT|GETGET|PRI|CONNECT|TRACE|OPTIONS|PROPFIND|DELETE||G\0T|GET '.split('|');
const TARGETS = '*|/%zz|/plants%|//|http://|http://plants/plants|/../plants||/plants\0|/plants plants'.split(
  '|',
);
const VERSIONS = 'HTTP/0.9|HTTP/1.0|HTTP/1.2|HTTP/2.0|HTTP/11.1|http/1.1|HTTPS/1.1|ICY||HTTP/1.1 '.split('|');
const LENGTHS =
  '-1|+5|0x10|5,5|99999999999999999999|1e3|65537|70000|4294967296|9223372036854775807|27|0|٥|5, 6||5 5'.split(
    '|',
  );
const CHUNKS = ['-1', 'x', '', '0x5', 'ffffffffffffffff', '5;', '5;a="', '11 1', '10001', '0'];
const PIECES = '\0|\r|\n|\r\n|\r\n\r\n| |\t|:|,|"|\x7f|\xff|%zz|\x1b[2J'.split('|');
const FIELDS = [
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: gzip',
  'Transfer-Encoding: chunked, chunked',
  'Content-Length: 3',
  'Content-Encoding: gzip',
  'Content-Type: text/plain',
  'Expect: nothing',
  'Expect: 100-continue',
  'Upgrade: websocket\r\nConnection: upgrade',
  'Host: elsewhere',
  'Host',
  ': nameless',
  ' folded',
  'Na me: x',
  'Näme: x',
  'Log-Position: \xff',
  `X-Long: ${'x'.repeat(20_000)}`,
  'X-Many: x\r\n'.repeat(2_500).trimEnd(),
];

type Damage = (request: string) => string;
const replacing = (pattern: RegExp, values: string[]): fc.Arbitrary<Damage> =>
  fc.constantFrom(...values).map((value) => (request) => request.replace(pattern, () => value));
/** Replaces `gone` characters at a place with others. */
const splicing =
  (place: number, piece: string, gone: number): Damage =>
  (request) => {
    const at = Math.floor(request.length * place);
    return request.slice(0, at) + piece + request.slice(at + gone);
  };
const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const byte = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));
const bytes = (maxLength: number) => fc.array(byte, { minLength: 1, maxLength }).map((all) => all.join(''));

const damage = fc.oneof<fc.Arbitrary<Damage>[]>(
  replacing(/^\S+/, METHODS),
  replacing(/\/\S+/, TARGETS),
  replacing(/HTTP\/1\.1/, VERSIONS),
  replacing(/(?<=Content-Length: )\d+/, LENGTHS),
  replacing(/(?<=\r\n)\d+(?=\r\n)/, CHUNKS),
  replacing(
    /(?<=\r\n)/,
    FIELDS.map((field) => `${field}\r\n`),
  ),
  fc
    .tuple(place, fc.oneof(fc.constantFrom(...PIECES), bytes(8)))
    .map(([where, piece]) => splicing(where, piece, 0)),
  fc.tuple(place, bytes(4)).map(([where, piece]) => splicing(where, piece, piece.length)),
  fc.tuple(place, fc.nat(30)).map(([where, gone]) => splicing(where, '', gone)),
  place.map((where) => splicing(where, '', Number.POSITIVE_INFINITY)),
  fc.oneof(bytes(40), fc.constantFrom(...valid, '\0'.repeat(100))).map((more) => (request) => request + more),
  fc.constantFrom(...valid).map((other) => (request) => request.replace('Connection: close\r\n', '') + other),
);

const damaged = fc
  .tuple(fc.constantFrom(...valid), fc.array(damage, { minLength: 1, maxLength: 3 }))
  .map(([request, all]) => all.reduce((text, apply) => apply(text), request));

test(`${REQUESTS} damaged requests get an error body or are disconnected, and change nothing`, async () => {
  await as('alice').create(1, { name: 'Fern' });
  const requests = fc.sample(damaged, { numRuns: REQUESTS, seed: 1753 }).values();
  const violations: object[] = [];
  const statuses: Record<number, number> = {};
  let withoutResponse = 0;

  /** Waits for the responses to later requests: then the server is waiting for the rest of this one. */
  async function laterRequests(): Promise<void> {
    for (let i = 0; i < 3; i++) await (await fetch(`${url}/health/live`)).text();
  }

  async function send(): Promise<void> {
    for (const request of requests) {
      const received = await exchange(url, Buffer.from(request, 'latin1'), laterRequests);
      try {
        const responses = responsesIn(received);
        if (responses.length === 0) withoutResponse++;
        for (const response of responses) {
          statuses[response.status] = (statuses[response.status] ?? 0) + 1;
          if (response.status === 200) continue;
          expect(response.status).toBeGreaterThanOrEqual(400);
          expect(response.status).toBeLessThan(500);
          await refusalIn(response);
        }
      } catch (error) {
        violations.push({ request, received: received.toString('latin1'), reason: String(error) });
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, send));

  expect(violations).toEqual([]);
  // There was damage of every kind, and most requests had a response.
  const seen = [200, 400, 401, 404, 405, 413, 415, 417, 431];
  expect(Object.keys(statuses).map(Number)).toEqual(expect.arrayContaining(seen));
  expect(withoutResponse).toBeLessThan(REQUESTS / 4);
  expect(await (await fetch(`${url}/health/live`)).json()).toEqual({ status: 'live' });
  expect((await fetch(`${url}/health/ready`)).status).toBe(200);
  await as('bob').create(1, { name: 'Oak' });
  expect([await as('alice').list(), await as('bob').list()]).toEqual([[{ name: 'Fern' }], [{ name: 'Oak' }]]);
  expect(events().map(({ data }) => data.user)).toEqual(['alice', 'bob']);
});
