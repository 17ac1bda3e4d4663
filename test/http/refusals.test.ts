import { request as httpRequest } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { PlantsByUser } from '../../projections/plantsByUser.ts';
import { type EventStore, StoreUnavailable } from '../../src/eventStore/eventStore.ts';
import { appOver } from '../support/appOver.ts';
import { answersIn, answerTo, exchange } from '../support/rawHttp.ts';
import { refusedWith } from '../support/refusal.ts';
import { serviceOfFile } from '../support/serviceOfFile.ts';

const { url, bearer, events } = await serviceOfFile();

/** Any method, also those that fetch refuses to send. */
function call(method: string, path: string, headers: Record<string, string> = {}): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { method, path, headers, agent: false }, async (answer) => {
      const pieces = await answer.toArray();
      const fields = new Headers(answer.headersDistinct as unknown as Record<string, string>);
      resolve(new Response(Buffer.concat(pieces), { status: answer.statusCode ?? 0, headers: fields }));
    });
    request.on('error', reject).end();
  });
}

describe('what is not there is 404, for everybody:', () => {
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
])('another method for %s is 405 and told which are allowed:', (path, methods, allow) => {
  test.each(methods)('%s', async (method) => {
    for (const headers of [{}, { authorization: await bearer('alice') }]) {
      const answer = await call(method, path, headers);
      expect(answer.headers.get('allow')).toBe(allow);
      expect(await refusedWith(40501, answer)).toContain(allow);
    }
  });
});

describe('without a good token', () => {
  test('401 comes before anything that is wrong with the request', async () => {
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
  test('whose scope does not contain audit, 40301 comes before anything that is wrong with a question for events', async () => {
    const authorization = await bearer('alice');
    for (const path of ['/events', '/events?limit=x']) {
      const answer = await call('GET', path, { authorization, accept: 'application/json' });
      expect(answer.headers.get('www-authenticate')).toBe(
        'Bearer realm="plants", error="insufficient_scope", scope="audit"',
      );
      expect(answer.headers.get('log-position')).toBeNull();
      await refusedWith(40301, answer);
    }
  });

  test('whose scope contains it, events in another media type are 40601', async () => {
    const { url } = await appOver(
      {},
      { verifyToken: (user) => ({ user, scopes: ['audit'], until: Number.POSITIVE_INFINITY }) },
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

describe('what is no HTTP is 40006 and ends the connection:', () => {
  const post = 'POST /plants HTTP/1.1\r\nHost: plants\r\nContent-Type: application/json\r\n';
  test.each<[string, string | Buffer, (() => Promise<void>)?]>([
    ['words', 'Hello, plants!\r\n\r\n'],
    ['TLS', Buffer.from('160301020001000001fc0303', 'hex')],
    ['an unknown method', 'PLANT /plants HTTP/1.1\r\nHost: plants\r\n\r\n'],
    ['an unknown version', 'GET /plants HTTP/1.9\r\nHost: plants\r\n\r\n'],
    ['HTTP/2 at once', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a NUL in a field', 'GET /plants HTTP/1.1\r\nHost: plants\r\nX-Name: a\0b\r\n\r\n'],
    ['a space in a field name', 'GET /plants HTTP/1.1\r\nHost: plants\r\nX Name: a\r\n\r\n'],
    ['a folded field', 'GET /plants HTTP/1.1\r\nHost: plants\r\n folded\r\n\r\n'],
    ['bare line feeds', 'GET /plants HTTP/1.1\nHost: plants\n\n'],
    ['two lengths', `${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{"id"`],
    ['no length', `${post}Content-Length: five\r\n\r\n{"id"`],
    ['a negative length', `${post}Content-Length: -1\r\n\r\n`],
    ['a length beyond 64 bits', `${post}Content-Length: 99999999999999999999\r\n\r\n`],
    ['a length and chunks', `${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['chunks and a length', `${post}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`],
    ['chunked, but not last', `${post}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n`],
    ['a head that is cut off', 'GET /plants HTTP/1.1\r\nHost: pla', async () => {}],
  ])('%s', async (_, bytes, idle) => {
    const answer = await answerTo(url, bytes, idle);
    expect(answer.headers.get('connection')).toBe('close');
    await refusedWith(40006, answer);
  });

  test('chunks that are none, even from somebody known', async () => {
    const head = `${post}Authorization: ${await bearer('alice')}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    await refusedWith(40006, await answerTo(url, `${head}five\r\n{"id"\r\n0\r\n\r\n`));
    await refusedWith(40006, await answerTo(url, `${head}5\r\n{"id":\r\n0\r\n\r\n`));
    expect(events('alice')).toEqual([]);
  });
});

describe('a missing Host is 40006:', () => {
  test.each(['/plants', '/health/live', '/nothing'])('%s', async (path) => {
    await refusedWith(40006, await answerTo(url, `GET ${path} HTTP/1.1\r\nConnection: close\r\n\r\n`));
  });
});

test('two Hosts are 40006', async () => {
  const bytes = 'GET /health/live HTTP/1.1\r\nHost: plants\r\nHost: trees\r\nConnection: close\r\n\r\n';
  await refusedWith(40006, await answerTo(url, bytes));
});

test('HTTP/1.0, which knew no Host, needs none', async () => {
  const answer = await answerTo(url, 'GET /health/live HTTP/1.0\r\n\r\n');
  expect([answer.status, await answer.json()]).toEqual([200, { status: 'live' }]);
});

test.each(['a-present', '100-continue, a-present', '200-ok'])(
  'an unknown Expect is 41701: %s',
  async (expectation) => {
    await refusedWith(41701, await call('POST', '/plants', { expect: expectation }));
  },
);

test('a known Expect is met', async () => {
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
  await refusedWith(43101, await answerTo(url, `GET /plants HTTP/1.1\r\nHost: plants\r\n${fields}\r\n`));
});

test('a URL of more than 16 KiB is 43101', async () => {
  await refusedWith(
    43101,
    await answerTo(url, `GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: plants\r\n\r\n`),
  );
});

describe('a body of more than 64 KiB is 41301', () => {
  const head = async () =>
    `POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: ${await bearer('alice')}\r\nContent-Type: application/json\r\n`;

  test('by its length alone, before it is sent', async () => {
    await refusedWith(41301, await answerTo(url, `${await head()}Content-Length: 65537\r\n\r\n`));
  });

  test('as soon as its chunks have become too many, and what follows is no request', async () => {
    const chunk = `1000\r\n${' '.repeat(0x1000)}\r\n`;
    const smuggled = 'POST /plants HTTP/1.1\r\nHost: plants\r\n\r\n';
    const bytes = `${await head()}Transfer-Encoding: chunked\r\n\r\n${chunk.repeat(17)}${smuggled}`;
    const [first, ...others] = answersIn(await exchange(url, bytes));
    await refusedWith(41301, first as Response);
    for (const answer of others) await refusedWith(40006, answer);
  });

  test('and so are chunk extensions', async () => {
    const bytes = `${await head()}Transfer-Encoding: chunked\r\n\r\n2;x=${'y'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`;
    await refusedWith(41301, await answerTo(url, bytes));
  });
});

test('what is wrong with a second request is not said of the first', async () => {
  const body = '{"id":1,"name":"Fern"}';
  const head = [
    'POST /plants HTTP/1.1',
    'Host: plants',
    `Authorization: ${await bearer('alice who pipelines')}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  const bytes = `${head.join('\r\n')}\r\n\r\n${body}nonsense\r\n\r\n`;
  const [first, second, ...others] = answersIn(await exchange(url, bytes));
  expect([first?.status, others]).toEqual([200, []]);
  await refusedWith(40006, second as Response);
  expect(events('alice who pipelines')).toHaveLength(1);
});

describe('a failure inside', () => {
  const SECRET = 'secret: disk /dev/sdz failed';

  const alice = { authorization: 'Bearer alice' };
  const post = {
    method: 'POST',
    headers: { ...alice, 'content-type': 'application/json' },
    body: '{"id":1,"name":"Fern"}',
  };

  test.each<[string, Partial<EventStore>, RequestInit]>([
    ['of an append', { append: () => Promise.reject(new Error(SECRET)) }, post],
    ['of a question', {}, { headers: alice }],
    ['that is no Error', { append: () => Promise.reject({ message: SECRET, statusCode: 'x' }) }, post],
    [
      'that calls itself one of the client',
      { append: () => Promise.reject(Object.assign(new Error(SECRET), { code: 'EIO' })) },
      post,
    ],
  ])('%s is 50001, and told to the log only', async (_, fault, init) => {
    const plantsOf = () => {
      throw new Error(SECRET);
    };
    const { url, log } = await appOver(fault, { view: { plantsOf } as unknown as PlantsByUser });
    const answer = await fetch(`${url}/plants`, init);
    const message = await refusedWith(50001, answer);
    expect(`${message}${JSON.stringify([...answer.headers])}`).not.toMatch(/secret|disk|sdz/);
    expect(log()).toContain(SECRET);
    expect(log()).toContain(answer.headers.get('request-id'));
  });

  test('of the store to answer is 50301, and told to the log only', async () => {
    const { url, log } = await appOver({ append: () => Promise.reject(new StoreUnavailable(SECRET)) });
    const answer = await fetch(`${url}/plants`, post);
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(await refusedWith(50301, answer)).not.toContain('secret');
    expect(log()).toContain(SECRET);
  });

  test('in the middle of a list cuts the connection: half a list is no list', async () => {
    let asked = 0;
    const page = { plants: Array(500).fill('{"name":"Fern"}').join(), count: 500, last: 500n, more: true };
    const plantsOf = () => {
      if (asked++ > 0) throw new Error(SECRET);
      return page;
    };
    const { url, log } = await appOver({}, { view: { position: 900n, plantsOf } as unknown as PlantsByUser });
    const answer = await fetch(`${url}/plants`, { headers: alice });
    expect(answer.status).toBe(200);
    await expect(answer.text()).rejects.toThrow();
    await expect.poll(log).toContain(SECRET);
  });
});

describe('a client who is too slow', () => {
  /** The HTTP side with time limits that a client reaches soon, and is right to reach however slow the machine is. */
  async function strictApp() {
    const { url, app } = await appOver({});
    expect([app.server.headersTimeout, app.server.requestTimeout]).toEqual([10_000, 20_000]);
    app.server.requestTimeout = app.server.headersTimeout = 500;
    return url;
  }

  test('with the head of a request is cut off', async () => {
    const url = await strictApp();
    const answers = await Promise.all(
      ['', 'GET /plants HTTP/1.1\r\nHost: pla'].map((head) => answerTo(url, head)),
    );
    for (const answer of answers) await refusedWith(40801, answer);
  });

  test('with the body of a request is cut off', async () => {
    const url = await strictApp();
    const head = 'POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer alice\r\n';
    const bodies = [
      'Content-Length: 22\r\n\r\n{"id":1,',
      'Transfer-Encoding: chunked\r\n\r\n8\r\n{"id":1,\r\n',
    ];
    const slow = (body: string) => exchange(url, `${head}Content-Type: application/json\r\n${body}`);
    for (const bytes of await Promise.all(bodies.map(slow))) {
      await refusedWith(40801, answersIn(bytes)[0] as Response);
    }
  });
});
