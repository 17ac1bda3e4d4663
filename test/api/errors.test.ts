import { request as httpRequest } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { PlantsByUser } from '../../projections/plantsByUser.ts';
import { type EventStore, StoreUnavailable } from '../../src/eventStore/eventStore.ts';
import { appOver } from '../support/appOver.ts';
import { exchange, responsesIn, responseTo } from '../support/rawHttp.ts';
import { refusedWith } from '../support/refusal.ts';
import { serviceOfFile } from '../support/serviceOfFile.ts';

const { url, bearer, events } = await serviceOfFile();

/** Any method, also those that fetch refuses to send. */
function call(method: string, path: string, headers: Record<string, string> = {}): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { method, path, headers, agent: false }, async (response) => {
      const pieces = await response.toArray();
      const fields = new Headers(response.headersDistinct as unknown as Record<string, string>);
      resolve(new Response(Buffer.concat(pieces), { status: response.statusCode ?? 0, headers: fields }));
    });
    request.on('error', reject).end();
  });
}

/** The checkpoint of the views whose queries fail. */
const APPLIED = { logId: 'm', position: 900n, eventId: 'e1' };

describe('an unknown path is 404, with and without a token:', () => {
  test.each([
    ['GET', '/'],
    ['GET', '/nothing'],
    ['POST', '/nothing'],
    ['PROPFIND', '/nothing'],
    ['OPTIONS', '/nothing'],
    ['GET', '/plants/'],
    ['GET', '/plants/1'],
    ['GET', '/Plants'],
    ['GET', '/events/'],
    ['GET', '/events/1'],
    ['GET', '//plants'],
    ['GET', '/v1/plants'],
    ['GET', '/health'],
    ['GET', '/health/live/..'],
    ['GET', '/__proto__'],
    ['GET', '/constructor'],
    ['GET', `/${'x'.repeat(2_000)}`],
    ['OPTIONS', '*'],
  ])('%s %s', async (method, path) => {
    await refusedWith(40401, await call(method, path));
    await refusedWith(40401, await call(method, path, { authorization: await bearer('alice') }));
  });
});

describe.each([
  ['/plants', ['DELETE', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY'], 'GET, HEAD, POST'],
  ['/plants?limit=x', ['DELETE', 'PROPFIND'], 'GET, HEAD, POST'],
  ['/events', ['POST', 'DELETE', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY'], 'GET, HEAD'],
  ['/events?limit=x', ['POST', 'PROPFIND'], 'GET, HEAD'],
  ['/health/live', ['POST', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'], 'GET, HEAD'],
  ['/health/ready', ['POST', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'], 'GET, HEAD'],
  ['/openapi.json', ['POST', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'], 'GET, HEAD'],
])('another method for %s is 405, with the allowed ones in Allow:', (path, methods, allow) => {
  test.each(methods)('%s', async (method) => {
    for (const headers of [{}, { authorization: await bearer('alice') }]) {
      const response = await call(method, path, headers);
      expect(response.headers.get('allow')).toBe(allow);
      expect(await refusedWith(40501, response)).toContain(allow);
    }
  });
});

describe('without a valid token', () => {
  test('401 precedes every other error', async () => {
    const body = { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'x'.repeat(70_000) };
    const posted = await fetch(`${url}/plants`, body);
    expect(posted.headers.get('www-authenticate')).toBe('Bearer realm="plants"');
    expect(posted.headers.get('log-position')).toBeNull();
    await refusedWith(40101, posted);
    for (const path of ['/plants?limit=x', '/events?limit=x'])
      await refusedWith(40101, await call('GET', path));
    const bad = await call('GET', '/plants?limit=x', { authorization: 'Bearer nonsense' });
    expect(bad.headers.get('www-authenticate')).toMatch(/^Bearer realm="plants", error="invalid_token"/);
    await refusedWith(40102, bad);
  });
});

describe('with a token', () => {
  test('without the scope audit, 40301 precedes every other error of GET /events', async () => {
    const authorization = await bearer('alice');
    for (const path of ['/events', '/events?limit=x']) {
      const response = await call('GET', path, { authorization, accept: 'application/json' });
      expect(response.headers.get('www-authenticate')).toBe(
        'Bearer realm="plants", error="insufficient_scope", scope="audit"',
      );
      expect(response.headers.get('log-position')).toBeNull();
      await refusedWith(40301, response);
    }
  });

  test('with the scope audit, GET /events in another media type is 40601', async () => {
    const { url } = await appOver(
      {},
      {
        verifyToken: (user) => ({
          subject: user,
          scopes: ['audit'],
          verifyAgainAt: Number.POSITIVE_INFINITY,
        }),
      },
    );
    const headers = { authorization: 'Bearer carol', accept: 'application/json' };
    await refusedWith(40601, await fetch(`${url}/events`, { headers }));
  });
});

describe('a malformed URL is 40007:', () => {
  test.each(['/%zz', '/events%', '/plants%', '/plants/%c3%28', '/%ff'])('%s', async (path) => {
    await refusedWith(40007, await call('GET', path));
    await refusedWith(40007, await call('POST', path, { authorization: await bearer('alice') }));
  });
});

describe('malformed HTTP is 40006 and closes the connection:', () => {
  const post = 'POST /plants HTTP/1.1\r\nHost: plants\r\nContent-Type: application/json\r\n';
  test.each<[string, string | Buffer, (() => Promise<void>)?]>([
    ['plain text', 'Hello, plants!\r\n\r\n'],
    ['TLS', Buffer.from('160301020001000001fc0303', 'hex')],
    ['an unknown method', 'PLANT /plants HTTP/1.1\r\nHost: plants\r\n\r\n'],
    ['an unknown version', 'GET /plants HTTP/1.9\r\nHost: plants\r\n\r\n'],
    ['HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a NUL in a field', 'GET /plants HTTP/1.1\r\nHost: plants\r\nX-Name: a\0b\r\n\r\n'],
    ['a space in a field name', 'GET /plants HTTP/1.1\r\nHost: plants\r\nX Name: a\r\n\r\n'],
    ['a folded field', 'GET /plants HTTP/1.1\r\nHost: plants\r\n folded\r\n\r\n'],
    ['bare line feeds', 'GET /plants HTTP/1.1\nHost: plants\n\n'],
    ['two values of Content-Length', `${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{"id"`],
    ['a Content-Length that is not a number', `${post}Content-Length: five\r\n\r\n{"id"`],
    ['a negative Content-Length', `${post}Content-Length: -1\r\n\r\n`],
    ['a Content-Length beyond 64 bits', `${post}Content-Length: 99999999999999999999\r\n\r\n`],
    [
      'Content-Length and Transfer-Encoding',
      `${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    [
      'Transfer-Encoding and Content-Length',
      `${post}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
    ],
    ['chunked, but not as the last encoding', `${post}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n`],
    ['an incomplete head', 'GET /plants HTTP/1.1\r\nHost: pla', async () => {}],
  ])('%s', async (_, bytes, idle) => {
    const response = await responseTo(url, bytes, idle);
    expect(response.headers.get('connection')).toBe('close');
    await refusedWith(40006, response);
  });

  test('malformed chunks, even with a valid token', async () => {
    const head = `${post}Authorization: ${await bearer('alice')}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    await refusedWith(40006, await responseTo(url, `${head}five\r\n{"id"\r\n0\r\n\r\n`));
    await refusedWith(40006, await responseTo(url, `${head}5\r\n{"id":\r\n0\r\n\r\n`));
    expect(events('alice')).toEqual([]);
  });
});

describe('a missing Host is 40006:', () => {
  test.each(['/plants', '/health/live', '/nothing'])('%s', async (path) => {
    await refusedWith(40006, await responseTo(url, `GET ${path} HTTP/1.1\r\nConnection: close\r\n\r\n`));
  });
});

test('two Hosts are 40006', async () => {
  const bytes = 'GET /health/live HTTP/1.1\r\nHost: plants\r\nHost: trees\r\nConnection: close\r\n\r\n';
  await refusedWith(40006, await responseTo(url, bytes));
});

test('an HTTP/1.0 request needs no Host', async () => {
  const response = await responseTo(url, 'GET /health/live HTTP/1.0\r\n\r\n');
  expect([response.status, await response.json()]).toEqual([200, { status: 'live' }]);
});

test.each(['a-present', '100-continue, a-present', '200-ok'])(
  'an unknown Expect is 41701: %s',
  async (expectation) => {
    await refusedWith(41701, await call('POST', '/plants', { expect: expectation }));
  },
);

test('Expect: 100-continue is followed by 100 Continue', async () => {
  const body = '{"id":1,"name":"Fern"}';
  const head = [
    'POST /plants HTTP/1.1',
    'Host: plants',
    'Connection: close',
    `Authorization: ${await bearer('alice who expects')}`,
    'Expect: 100-Continue',
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  const bytes = await exchange(url, `${head.join('\r\n')}\r\n\r\n${body}`);
  expect(bytes.toString()).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
});

test.each([
  ['one', `X-Name: ${'x'.repeat(20_000)}\r\n`],
  ['many', 'X-Name: x\r\n'.repeat(3_000)],
])('%s header fields of more than 16 KiB are 43101', async (_, fields) => {
  await refusedWith(43101, await responseTo(url, `GET /plants HTTP/1.1\r\nHost: plants\r\n${fields}\r\n`));
});

test('a URL of more than 16 KiB is 43101', async () => {
  await refusedWith(
    43101,
    await responseTo(url, `GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: plants\r\n\r\n`),
  );
});

describe('a body of more than 64 KiB is 41301', () => {
  const head = async () =>
    `POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: ${await bearer('alice')}\r\nContent-Type: application/json\r\n`;

  test('by its Content-Length, before it is sent', async () => {
    await refusedWith(41301, await responseTo(url, `${await head()}Content-Length: 65537\r\n\r\n`));
  });

  test('by its chunks; the bytes after them are not processed as a request', async () => {
    const chunk = `1000\r\n${' '.repeat(0x1000)}\r\n`;
    const smuggled = 'POST /plants HTTP/1.1\r\nHost: plants\r\n\r\n';
    const bytes = `${await head()}Transfer-Encoding: chunked\r\n\r\n${chunk.repeat(17)}${smuggled}`;
    const [first, ...others] = responsesIn(await exchange(url, bytes));
    await refusedWith(41301, first as Response);
    for (const response of others) await refusedWith(40006, response);
  });

  test('by its chunk extensions', async () => {
    const bytes = `${await head()}Transfer-Encoding: chunked\r\n\r\n2;x=${'y'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`;
    await refusedWith(41301, await responseTo(url, bytes));
  });
});

test('a malformed pipelined request does not affect the one before it', async () => {
  const body = '{"id":1,"name":"Fern"}';
  const head = [
    'POST /plants HTTP/1.1',
    'Host: plants',
    `Authorization: ${await bearer('alice who pipelines')}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  const bytes = `${head.join('\r\n')}\r\n\r\n${body}nonsense\r\n\r\n`;
  const [first, second, ...others] = responsesIn(await exchange(url, bytes));
  expect([first?.status, others]).toEqual([200, []]);
  await refusedWith(40006, second as Response);
  expect(events('alice who pipelines')).toHaveLength(1);
});

describe('a failure', () => {
  const SECRET = 'secret: disk /dev/sdz failed';

  const alice = { authorization: 'Bearer alice' };
  const post = {
    method: 'POST',
    headers: { ...alice, 'content-type': 'application/json' },
    body: '{"id":1,"name":"Fern"}',
  };

  test.each<[string, Partial<EventStore>, RequestInit]>([
    ['in an append', { append: () => Promise.reject(new Error(SECRET)) }, post],
    ['in a page query', {}, { headers: alice }],
    ['that is not an Error', { append: () => Promise.reject({ message: SECRET, statusCode: 'x' }) }, post],
    [
      'with an error code',
      { append: () => Promise.reject(Object.assign(new Error(SECRET), { code: 'EIO' })) },
      post,
    ],
  ])('%s is 50001; only the logs have its message', async (_, store, init) => {
    const plantsOf = () => {
      throw new Error(SECRET);
    };
    const { url, log } = await appOver(store, {
      plantsByUser: { plantsOf, applied: APPLIED } as unknown as PlantsByUser,
    });
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

  test('in the middle of a list aborts the response', async () => {
    let pages = 0;
    const page = { plants: Array(500).fill('{"name":"Fern"}').join(), count: 500, last: 500n, hasMore: true };
    const plantsOf = () => {
      if (pages++ > 0) throw new Error(SECRET);
      return page;
    };
    const { url, log } = await appOver(
      {},
      { plantsByUser: { plantsOf, applied: APPLIED } as unknown as PlantsByUser },
    );
    const response = await fetch(`${url}/plants`, { headers: alice });
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
    await expect.poll(log).toContain(SECRET);
  });
});

describe('a client that is too slow', () => {
  /** The HTTP API with timeouts that a slow client reaches soon. */
  async function strictApp() {
    const { url, app } = await appOver({});
    expect([app.server.headersTimeout, app.server.requestTimeout]).toEqual([10_000, 20_000]);
    app.server.requestTimeout = app.server.headersTimeout = 500;
    return url;
  }

  test('with the head of a request gets 40801', async () => {
    const url = await strictApp();
    const responses = await Promise.all(
      ['', 'GET /plants HTTP/1.1\r\nHost: pla'].map((head) => responseTo(url, head)),
    );
    for (const response of responses) await refusedWith(40801, response);
  });

  test('with the body of a request gets 40801', async () => {
    const url = await strictApp();
    const head = 'POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer alice\r\n';
    const bodies = [
      'Content-Length: 22\r\n\r\n{"id":1,',
      'Transfer-Encoding: chunked\r\n\r\n8\r\n{"id":1,\r\n',
    ];
    const slow = (body: string) => exchange(url, `${head}Content-Type: application/json\r\n${body}`);
    for (const bytes of await Promise.all(bodies.map(slow))) {
      await refusedWith(40801, responsesIn(bytes)[0] as Response);
    }
  });
});
