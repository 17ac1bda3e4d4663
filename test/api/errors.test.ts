import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { connection, exchange, responsesIn, responseTo, unread } from '@event-sourced/testing/rawHttp';
import { refusedWith } from '@event-sourced/testing/refusal';
import { describe, expect, test } from 'vitest';
import {
  NO_STREAM,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../../packages/event-log/src/eventStore.ts';
import type { PlantsByUser } from '../../projections/plantsByUser.ts';
import { appOver, claimsOf, recorded } from '../support/appOver.ts';
import { serviceOfFile } from '../support/service.ts';

const { url, bearer, events } = await serviceOfFile();

/** Sends any method, even one that fetch refuses, with these fields. */
const call = (method: string, path: string, fields = ''): Promise<Response> =>
  responseTo(url, `${method} ${path} HTTP/1.1\r\nHost: plants\r\nConnection: close\r\n${fields}\r\n`);

const tokenOfAlice = `Authorization: ${await bearer('alice')}\r\n`;

/** The bytes of a POST, with these fields. */
const postOfFern = async (user: string, fields = ''): Promise<string> =>
  `POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: ${await bearer(user)}\r\n${fields}` +
  'Content-Type: application/json\r\nContent-Length: 22\r\n\r\n{"id":1,"name":"Fern"}';

test.each([
  ['GET', '/nothing'],
  ['PROPFIND', '/nothing'],
  ['OPTIONS', '/nothing'],
  ['GET', '/plants/'],
  ['GET', '/Plants'],
  ['GET', '//plants'],
  ['GET', '/x/../plants'],
  ['GET', '/./plants'],
  ['GET', '/__proto__'],
  ['GET', `/${'x'.repeat(2_000)}`],
  ['OPTIONS', '*'],
])('an unknown path is 404, with and without a token: %s %s', async (method, path) => {
  await refusedWith(40401, await call(method, path));
  await refusedWith(40401, await call(method, path, tokenOfAlice));
});

test.each(['/%zz', '/events%', '/plants%', '/plants/%c3%28', '/%ff'])(
  'a malformed URL is 40007: %s',
  async (path) => {
    await refusedWith(40007, await call('GET', path));
    await refusedWith(40007, await call('POST', path, tokenOfAlice));
  },
);

describe('malformed HTTP is 40006 and closes the connection:', () => {
  const post = 'POST /plants HTTP/1.1\r\nHost: plants\r\nContent-Type: application/json\r\n';
  test.each<[string, string | Buffer, (() => Promise<void>)?]>([
    ['plain text', 'Hello, plants!\r\n\r\n'],
    ['TLS', Buffer.from('160301020001000001fc0303', 'hex')],
    ['an unknown method', 'PLANT /plants HTTP/1.1\r\nHost: plants\r\n\r\n'],
    ['HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a NUL in a field', 'GET /plants HTTP/1.1\r\nHost: plants\r\nX-Name: a\0b\r\n\r\n'],
    ['a space in a field name', 'GET /plants HTTP/1.1\r\nHost: plants\r\nX Name: a\r\n\r\n'],
    ['bare line feeds', 'GET /plants HTTP/1.1\nHost: plants\n\n'],
    ['two values of Content-Length', `${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{"id"`],
    ['a Content-Length beyond 64 bits', `${post}Content-Length: 99999999999999999999\r\n\r\n`],
    [
      'Content-Length and Transfer-Encoding',
      `${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['chunked, but not as the last encoding', `${post}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n`],
    ['an incomplete head', 'GET /plants HTTP/1.1\r\nHost: pla', async () => {}],
  ])('%s', async (_, bytes, idle) => {
    const response = await responseTo(url, bytes, idle);
    expect(response.headers.get('connection')).toBe('close');
    await refusedWith(40006, response);
  });

  test('malformed chunks, even with a valid token', async () => {
    const head = `${post}${tokenOfAlice}Transfer-Encoding: chunked\r\n\r\n`;
    await refusedWith(40006, await responseTo(url, `${head}five\r\n{"id"\r\n0\r\n\r\n`));
    await refusedWith(40006, await responseTo(url, `${head}5\r\n{"id":\r\n0\r\n\r\n`));
    expect(events('alice')).toEqual([]);
  });
});

test('a valid token whose subject is not a valid user is 40102', async () => {
  const { url } = await appOver({}, { verifyToken: () => claimsOf('alice\nbob', 'audit') });
  for (const path of ['/plants', '/events']) {
    const response = await fetch(`${url}${path}`, { headers: { authorization: 'Bearer token' } });
    expect(response.headers.get('www-authenticate')).toContain('error="invalid_token"');
    expect(await refusedWith(40102, response)).toBe("The token's subject is not a valid user.");
  }
});

test.each([
  ['no Host', ''],
  ['two Hosts', 'Host: plants\r\nHost: trees\r\n'],
])('%s is 40006', async (_, hosts) => {
  const bytes = `GET /health/live HTTP/1.1\r\n${hosts}Connection: close\r\n\r\n`;
  await refusedWith(40006, await responseTo(url, bytes));
});

test('two Content-Types are 41501', async () => {
  await refusedWith(
    41501,
    await responseTo(url, await postOfFern('alice', 'Content-Type: application/json\r\n')),
  );
});

test('an HTTP/1.0 request needs no Host', async () => {
  const response = await responseTo(url, 'GET /health/live HTTP/1.0\r\n\r\n');
  expect([response.status, await response.json()]).toEqual([200, { status: 'live' }]);
});

test.each(['a-present', '100-continue, a-present', '200-ok'])(
  'an unknown Expect is 41701: %s',
  async (expectation) => {
    await refusedWith(41701, await call('POST', '/plants', `Expect: ${expectation}\r\n`));
  },
);

test('Expect: 100-continue is followed by 100 Continue', async () => {
  const post = await postOfFern('alice who expects', 'Connection: close\r\nExpect: 100-Continue\r\n');
  const bytes = await exchange(url, post);
  expect(bytes.toString()).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
});

test.each([
  ['a header field', '/plants', `X-Name: ${'x'.repeat(20_000)}\r\n`],
  ['header fields', '/plants', 'X-Name: x\r\n'.repeat(3_000)],
  ['a URL', `/${'x'.repeat(20_000)}`, ''],
])('%s of more than 16 KiB: 43101', async (_, path, fields) => {
  await refusedWith(43101, await responseTo(url, `GET ${path} HTTP/1.1\r\nHost: plants\r\n${fields}\r\n`));
});

describe('a body of more than 60 KiB is 41301', () => {
  const head = `POST /plants HTTP/1.1\r\nHost: plants\r\n${tokenOfAlice}Content-Type: application/json\r\n`;

  test('by its Content-Length, before it is sent', async () => {
    await refusedWith(41301, await responseTo(url, `${head}Content-Length: 61441\r\n\r\n`));
  });

  test('by its chunks; the bytes after them are not processed as a request', async () => {
    const chunk = `1000\r\n${' '.repeat(0x1000)}\r\n`;
    const smuggled = 'POST /plants HTTP/1.1\r\nHost: plants\r\n\r\n';
    const bytes = `${head}Transfer-Encoding: chunked\r\n\r\n${chunk.repeat(16)}${smuggled}`;
    const responses = responsesIn(await exchange(url, bytes));
    const errors = await Promise.all(
      responses.map(async (response) => ((await response.json()) as { error: number }).error),
    );
    // What follows the chunks is malformed, and may be noticed before the limit, or after it.
    expect([[41301], [40006], [41301, 40006]]).toContainEqual(errors);
  });

  test('by its chunk extensions', async () => {
    const bytes = `${head}Transfer-Encoding: chunked\r\n\r\n2;x=${'y'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`;
    await refusedWith(41301, await responseTo(url, bytes));
  });
});

test('a malformed pipelined request does not affect the one before it', async () => {
  const bytes = `${await postOfFern('alice who pipelines')}nonsense\r\n\r\n`;
  const [first, second, ...others] = responsesIn(await exchange(url, bytes));
  expect([first?.status, others]).toEqual([200, []]);
  await refusedWith(40006, second as Response);
  expect(events('alice who pipelines')).toHaveLength(1);
});

describe('a failure', () => {
  const SECRET = 'secret: disk /dev/sdz failed';
  const viewOf = (readPage: () => unknown) => {
    const progress = { logId: 'm', position: 900n, eventId: 'e1' };
    return { plantsByUser: { readPage, progress } as unknown as PlantsByUser };
  };

  const alice = { authorization: 'Bearer alice' };
  const post = {
    method: 'POST',
    headers: { ...alice, 'content-type': 'application/json' },
    body: '{"id":1,"name":"Fern"}',
  };

  test.each<[string, unknown, RequestInit]>([
    ['in an append', new Error(SECRET), post],
    ['in a page query', new Error(SECRET), { headers: alice }],
    ['that is not an Error', { message: SECRET, statusCode: 'x' }, post],
  ])('%s is 50001; only the logs have its message', async (_, failure, init) => {
    const readPage = () => {
      throw failure;
    };
    const { url, log } = await appOver({ append: () => Promise.reject(failure) }, viewOf(readPage));
    const response = await fetch(`${url}/plants`, init);
    const message = await refusedWith(50001, response);
    expect(`${message}${JSON.stringify([...response.headers])}`).not.toMatch(/secret|disk|sdz/);
    expect(log()).toContain(SECRET);
    expect(log()).toContain(response.headers.get('request-id'));
  });

  test('to reach the event store is 50301; only the logs have its message', async () => {
    const { url, log } = await appOver({ append: () => Promise.reject(new StoreUnavailable(SECRET)) });
    const response = await fetch(`${url}/plants`, post);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(await refusedWith(50301, response)).not.toContain('secret');
    expect(log()).toContain(SECRET);
  });

  test('to read the log does not affect a POST whose plant is stored', async () => {
    const reads = () => Promise.reject(new StoreUnavailable(SECRET));
    const first = recorded(7n, { type: 'PlantCreated', data: { id: '1', user: 'alice', name: 'Fern' } });
    const existing = { first, logId: 'm' };
    const taken = new WrongExpectedRevision(first.stream, NO_STREAM, { existing });
    const appends = {
      'm.5': () => ({ position: 5n, revision: 0n, logId: 'm' }),
      'm.7': () => Promise.reject(taken),
    };
    for (const [position, append] of Object.entries(appends)) {
      const { url } = await appOver({ logId: reads, readStream: reads, append: async () => append() });
      const response = await fetch(`${url}/plants`, post);
      expect([response.status, response.headers.get('log-position')]).toEqual([200, position]);
    }
  });

  test('in the middle of a list aborts the response', async () => {
    let pages = 0;
    const page = { plants: Array(500).fill('{"name":"Fern"}').join(), count: 500, last: 500n, hasMore: true };
    const readPage = () => {
      if (pages++ > 0) throw new Error(SECRET);
      return page;
    };
    const { url, log } = await appOver({}, viewOf(readPage));
    // The first byte of a compressed list may come after the failure.
    const headers = { ...alice, 'accept-encoding': 'identity' };
    const response = await fetch(`${url}/plants`, { headers });
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
    await expect.poll(log).toContain(SECRET);
  });
});

const POST =
  'POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer alice\r\nContent-Type: application/json\r\n';
test.each([
  ['half a head', 40801, 'GET /plants HTTP/1.1\r\nHost: pla'],
  ['half a body', 40801, `${POST}Content-Length: 9\r\n\r\n{`],
  ['half a body in chunks', 40801, `${POST}Transfer-Encoding: chunked\r\n\r\n8\r\n{"id":1,\r\n`],
  ['what is not HTTP', 40006, 'nonsense\r\n\r\n'],
  ['large header fields', 43101, `GET /plants HTTP/1.1\r\nX: ${'x'.repeat(20_000)}`],
  ['a malformed pipelined request', 40006, 'GET /plants HTTP/1.1\r\nHost: plants\r\n\r\nnonsense\r\n\r\n'],
])(
  'the connection of a client that never closes it is closed after the response to %s',
  async (_, error, bytes) => {
    const { url, app } = await appOver({});
    expect([app.server.headersTimeout, app.server.requestTimeout]).toEqual([10_000, 20_000]);
    if (error === 40801) app.server.requestTimeout = app.server.headersTimeout = 500;
    app.server.timeout = 0; // a connection without traffic is not closed for that
    const socket = connection(url);
    socket.write(bytes);
    let received = '';
    socket.on('data', (piece) => {
      received += piece;
    });
    await once(socket, 'end');
    expect(received).toContain(`HTTP/1.1 ${Math.floor(error / 100)} `);
    expect(received).toContain(`{"error":${error},`);
    const connections = promisify(app.server.getConnections.bind(app.server));
    await expect.poll(() => connections()).toBe(0);
  },
);

test('the connection of a client that sends nothing is closed without a response', async () => {
  const { url, app } = await appOver({});
  app.server.requestTimeout = app.server.headersTimeout = 500;
  expect(await text(connection(url))).toBe('');
});

test('a request that is answered before its body has arrived gets no second response', async () => {
  const { url, app } = await appOver({});
  const socket = await unread(url, 'POST /plants HTTP/1.1\r\nHost: plants\r\nContent-Length: 9\r\n\r\n{');
  app.server.requestTimeout = app.server.headersTimeout = 500;
  expect((await text(socket)).match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 401']);
});
