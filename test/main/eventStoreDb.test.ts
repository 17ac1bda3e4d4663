import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  DoubleLog,
  type DoubleOptions,
  EventStoreDbDouble,
  type EventToWrite,
} from '../support/eventStoreDbDouble.ts';
import { canRun, type Ended, type Process, run, startServer } from '../support/process.ts';
import { refusedWith } from '../support/refusal.ts';
import { client } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

/** What a GET waits for its view, in milliseconds. */
const VIEW_PATIENCE = 5_000;
/** Time for an answer to come over, and for a machine that has much to do, in milliseconds. */
const SLACK = 1_500;
const SECONDS = 8_000;
const INFO = 30;
const FATAL = 60;

const hasOpenssl = canRun('TLS', ['openssl', 'version']);

async function startDouble(options: DoubleOptions = {}): Promise<EventStoreDbDouble> {
  const double = await EventStoreDbDouble.start(options);
  onTestFinished(() => double.stop());
  return double;
}

/** A server that is away, and will be where its URL says once it is restarted. */
async function startDoubleLater(): Promise<EventStoreDbDouble> {
  const double = await startDouble();
  await double.stop();
  return double;
}

async function startService(EVENTSTOREDB_URL: string, env: Record<string, string> = {}) {
  const { DATA_DIR = tempDir() } = env;
  const server = await startServer({ env: { EVENTSTOREDB_URL, ...env, DATA_DIR } });
  const as = client(server.url, DATA_DIR);
  return {
    ...server,
    dir: DATA_DIR,
    alice: as('alice'),
    bob: as('bob'),
    isReady: async () => (await fetch(`${server.url}/health/ready`)).status === 200,
    lines: () => linesIn(server.stdout()),
  };
}

type Service = Awaited<ReturnType<typeof startService>>;

type Line = { level: number; msg: string; reason?: string };

const linesIn = (text: string): Line[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line));

const positionIn = ({ headers }: Response): string => headers.get('log-position') ?? '';

function terminated({ pid, ended }: Process): Promise<Ended> {
  process.kill(pid, 'SIGTERM');
  return ended;
}

const markIn = (answer: Response): string => positionIn(answer).split('.')[0] ?? '';

/** What it gives, and how many milliseconds it has taken. */
async function timed<T>(promise: Promise<T>): Promise<[T, number]> {
  const since = performance.now();
  return [await promise, performance.now() - since];
}

describe('a server that is away at the start', () => {
  test('is waited for: the service says so, refuses in time, and recovers by itself', async () => {
    const double = await startDoubleLater();
    const service = await startService(double.url, { EVENTSTOREDB_TIMEOUT: '3' });
    expect((await fetch(`${service.url}/health/live`)).status).toBe(200);
    await service.printed(/the log is away/);
    const readiness = await fetch(`${service.url}/health/ready`);
    expect(readiness.status).toBe(503);
    expect(await readiness.json()).toEqual({
      error: 50302,
      message: expect.stringMatching(/^the log is away: .*ECONNREFUSED/),
    });

    const [[list, listed], [creation, created]] = await Promise.all([
      timed(service.alice.get()),
      timed(service.bob.create(1, { name: 'Oak' })),
    ]);
    expect(await refusedWith(50302, list)).toMatch(/try again/i);
    expect(listed).toBeGreaterThan(VIEW_PATIENCE - 100);
    expect(listed).toBeLessThan(VIEW_PATIENCE + SLACK);
    expect(await refusedWith(50301, creation)).toMatch(/repeating the request is safe/);
    expect(created).toBeLessThan(3_000 + SLACK);
    for (const answer of [list, creation]) expect(answer.headers.get('retry-after')).toBe('1');

    const waiting = service.alice.get();
    await double.restart();
    await expect.poll(service.isReady, { timeout: SECONDS }).toBe(true);
    expect(await (await waiting).json()).toEqual([]);
    expect((await service.bob.create(1, { name: 'Oak' })).status).toBe(200);
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await service.alice.list()).toEqual([{ name: 'Fern' }]);
    expect(await service.bob.list()).toEqual([{ name: 'Oak' }]);
    const away = service.lines().filter(({ msg }) => msg.startsWith('the log is'));
    expect(away.map(({ msg }) => msg)).toEqual(['the log is away: the view waits for it', 'the log is back']);
  });

  test('is waited for just so when it does not answer', async () => {
    const double = await startDouble();
    double.freeze();
    const service = await startService(double.url, { EVENTSTOREDB_TIMEOUT: '2' });
    const [creation, created] = await timed(service.bob.create(1, { name: 'Oak' }));
    await refusedWith(50301, creation);
    expect(created).toBeLessThan(2_000 + SLACK);
    expect(await service.isReady()).toBe(false);
    double.thaw();
    await expect.poll(service.isReady, { timeout: SECONDS }).toBe(true);
    expect((await service.bob.create(1, { name: 'Oak' })).status).toBe(200);
    expect(await service.bob.list()).toEqual([{ name: 'Oak' }]);
  });
});

describe('a server that is away later', () => {
  test('does not keep the lists from being read', async () => {
    const double = await startDouble();
    const service = await startService(double.url, { EVENTSTOREDB_TIMEOUT: '2' });
    const position = positionIn(await service.alice.create(1, { name: 'Fern' }));
    expect(await service.alice.list()).toEqual([{ name: 'Fern' }]);
    await double.stop();
    await refusedWith(50301, await service.alice.create(2, { name: 'Ivy' }));
    for (const headers of [{}, { 'log-position': position }]) {
      const [answer, ms] = await timed(service.alice.get('', headers));
      expect(await answer.json()).toEqual([{ name: 'Fern' }]);
      expect(ms).toBeLessThan(SLACK);
    }
    expect(await service.bob.list()).toEqual([]);
    expect(await service.isReady()).toBe(true);
    await double.restart();
    expect((await service.alice.create(2, { name: 'Ivy' })).status).toBe(200);
    expect(await service.alice.list()).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
  });

  test('does keep back a list that would lack what a client knows of', async () => {
    const double = await startDouble();
    const service = await startService(double.url);
    const before = positionIn(await service.alice.create(1, { name: 'Fern' }));
    expect(await service.alice.list()).toEqual([{ name: 'Fern' }]);
    double.muteSubscriptions();
    expect((await service.alice.create(2, { name: 'Ivy' })).status).toBe(200);
    await double.stop();
    const [mark, place] = before.split('.');
    const named = { 'log-position': `${mark}.${Number(place) + 1_000_000}` };
    const answers = await Promise.all([
      service.alice.get(),
      service.bob.get(),
      service.alice.get('', { 'log-position': before }),
      service.alice.get('', named),
    ]);
    for (const answer of answers) await refusedWith(50302, answer);
    await double.restart();
    expect((await service.bob.create(1, { name: 'Oak' })).status).toBe(200);
    expect(await service.alice.list()).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
  });
});

test('SIGTERM ends the service within 5 seconds, whatever the server does to a POST in flight', async () => {
  /** Fern is created, then the server fails, Ivy is to be created, and some milliseconds later comes the signal. */
  const ending = async (fail: (double: EventStoreDbDouble) => unknown, later: number) => {
    const double = await startDouble();
    const service = await startService(double.url);
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    await fail(double);
    return end(service, later);
  };
  const neverThere = async (later: number) => end(await startService((await startDoubleLater()).url), later);
  const end = async (service: Service, later: number) => {
    const inFlight = service.alice.create(2, { name: 'Ivy' }).then(
      ({ status }) => status,
      () => 'cut',
    );
    await pause(later);
    const [ended, ms] = await timed(terminated(service));
    expect([200, 503, 'cut']).toContain(await inFlight);
    return { ...ended, inTime: ms < 5_000, closed: service.lines().some(({ msg }) => msg === 'closed') };
  };
  const ends = await Promise.all([
    ending(() => {}, 200),
    ending((double) => double.stop(), 200),
    ending((double) => double.stop(), 3_000),
    ending((double) => double.freeze(), 200),
    ending((double) => double.freeze(), 3_000),
    neverThere(200),
  ]);
  expect(ends).toEqual(Array(6).fill({ code: 0, signal: null, inTime: true, closed: true }));
});

test('a service that is killed has lost nothing that it acknowledged, wherever it starts again', async () => {
  const double = await startDouble();
  const DATA_DIR = tempDir();
  const acknowledged = { alice: new Set<string>(), bob: new Set<string>() };
  const create = async (service: Service, user: 'alice' | 'bob', from: number) => {
    for (let id = from; ; id++) {
      const name = `${user}'s plant ${id}`;
      const answer = await service[user].create(id, { name });
      expect(answer.status).toBe(200);
      acknowledged[user].add(name);
    }
  };
  for (const life of [150, 450]) {
    const service = await startService(double.url, { DATA_DIR });
    const writing = (['alice', 'bob'] as const).flatMap((user) =>
      Array.from({ length: 8 }, (_, writer) => create(service, user, life * 100_000 + writer * 10_000)),
    );
    const ends = Promise.allSettled(writing);
    await service.printed(/"request"/);
    await pause(life);
    await service.kill();
    for (const { reason } of (await ends) as PromiseRejectedResult[])
      expect(reason).toBeInstanceOf(TypeError); // fetch's way to say that the connection is gone
  }
  for (const dir of [DATA_DIR, tempDir()]) {
    const service = await startService(double.url, { DATA_DIR: dir });
    for (const user of ['alice', 'bob'] as const) {
      const listed = (await service[user].list()).map(({ name }) => name);
      expect(new Set(listed).size).toBe(listed.length);
      expect(acknowledged[user].size).toBeGreaterThan(0);
      expect([...acknowledged[user]].filter((name) => !listed.includes(name))).toEqual([]);
    }
    await service.kill();
  }
});

describe('a server that is replaced behind the service', () => {
  /** A log that has the first events of another one. */
  const backupOf = ({ all }: DoubleLog, count: number): DoubleLog => {
    const backup = new DoubleLog();
    for (const event of all.slice(0, count)) backup.append(event.stream, event);
    return backup;
  };

  const SAVED = 1_500;

  async function replaced(by: (log: DoubleLog) => DoubleLog, after = 0) {
    const double = await startDouble();
    const service = await startService(double.url);
    await service.alice.create(1, { name: 'Fern' });
    await service.bob.create(1, { name: 'Oak' });
    const position = positionIn(await service.alice.create(2, { name: 'Ivy' }));
    expect(await service.alice.list()).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
    await pause(after);
    await double.stop();
    await startDouble({ port: double.port, log: by(double.log) });
    return { service, position };
  }

  test.each([
    ['at once', 0],
    ['once the view is saved', SAVED],
  ])(
    'by an empty one, %s, has the view built anew, and positions of the old one are refused',
    async (_, after) => {
      const { service, position } = await replaced(() => new DoubleLog(), after);
      const lists = { ofOld: new Set<string>(), ofNew: new Set<string>() };
      const list = async () => {
        const answer = await service.alice.get();
        const text = await answer.text();
        const isOfOld = markIn(answer) === position.split('.')[0];
        if (answer.status === 200) lists[isOfOld ? 'ofOld' : 'ofNew'].add(text);
        else await refusedWith(50302, new Response(text, answer));
        return text;
      };
      await expect.poll(list, { timeout: SECONDS, interval: 5 }).toBe('[]');
      expect([...lists.ofOld].filter((list) => list !== '[{"name":"Fern"},{"name":"Ivy"}]')).toEqual([]);
      expect([...lists.ofNew]).toEqual(['[]']);
      await refusedWith(40005, await service.alice.get('', { 'log-position': position }));
      expect((await service.alice.create(2, { name: 'Moss' })).status).toBe(200);
      expect(await service.alice.list()).toEqual([{ name: 'Moss' }]);
      expect(await service.bob.list()).toEqual([]);
      expect(await service.isReady()).toBe(true);
    },
  );

  test('by an empty one does not keep what is created at once from being found at its Log-Position', async () => {
    const { service } = await replaced(() => new DoubleLog());
    const created = await service.alice.create(3, { name: 'Moss' });
    expect(created.status).toBe(200);
    const statuses = new Set<number>();
    const list = async () => {
      const answer = await service.alice.get('', { 'log-position': positionIn(created) });
      statuses.add(answer.status);
      return answer.json();
    };
    await expect.poll(list, { timeout: SECONDS, interval: 5 }).toEqual([{ name: 'Moss' }]);
    expect(statuses.difference(new Set([200, 503]))).toEqual(new Set());
  });

  test.each([
    ['at once', 0],
    ['once the view is saved', SAVED],
  ])('by an older backup of it, %s, has the view built anew', async (_, after) => {
    const { service, position } = await replaced((log) => backupOf(log, 3), after); // its beginning, Fern and Oak
    await expect.poll(service.alice.list, { timeout: SECONDS }).toEqual([{ name: 'Fern' }]);
    await refusedWith(50302, await service.alice.get('', { 'log-position': position }));
    expect((await service.bob.create(2, { name: 'Moss' })).status).toBe(200);
    expect(await service.bob.list()).toEqual([{ name: 'Oak' }, { name: 'Moss' }]);
    expect(await service.isReady()).toBe(true);
  });
});

describe.skipIf(!hasOpenssl)('a server with TLS and accounts', () => {
  const PASSWORD = 's3cret/changeit';

  async function secured() {
    const dir = tempDir();
    const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
    execFileSync(
      'openssl',
      // biome-ignore format: a command line
      ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert,
       '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
      { stdio: 'ignore' },
    );
    const tls = { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
    const double = await startDouble({ tls, users: { admin: PASSWORD } });
    const at = `admin:${encodeURIComponent(PASSWORD)}@localhost:${double.port}`;
    return { double, cert, at };
  }

  /** Started with this connection string the service ends, and says why. */
  async function refusal(EVENTSTOREDB_URL: string, env: Record<string, string> = {}): Promise<string> {
    const service = run({ env: { EVENTSTOREDB_URL, DATA_DIR: tempDir(), ...env } });
    const [{ code, stdout, stderr }, ms] = await timed(service);
    expect({ code, stdout }).toEqual({ code: 1, stdout: expect.not.stringContaining('listening') });
    expect(ms).toBeLessThan(10_000);
    expectNoPassword(stdout + stderr, PASSWORD, 'wrong-password');
    return stderr;
  }

  test('is followed where user, password and certificate are right', async () => {
    const { double, cert, at } = await secured();
    const service = await startService(`esdb://${at}?tls=true&tlsCAFile=${cert}`);
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await service.alice.list()).toEqual([{ name: 'Fern' }]);
    expect(double.log.stream('plant-alice/1')).toHaveLength(1);
  });

  test('is followed by another name of the scheme, and without tls, which is on unless it is off', async () => {
    const { cert, at } = await secured();
    const service = await startService(`kurrentdb://${at}?tlsCAFile=${cert}`);
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
  });

  test('is refused where the user, the password, the certificate or tls is not what it should be', async () => {
    const { double, cert, at } = await secured();
    const { port } = await startDouble();
    const wrong = at.replace(/:.*@/, ':wrong-password@');
    const [wrongPassword, nobody, untrusted, missing, plaintext] = await Promise.all([
      refusal(`esdb://${wrong}?tls=true&tlsCAFile=${cert}`),
      refusal(`esdb://localhost:${double.port}?tls=true&tlsCAFile=${cert}`),
      refusal(`esdb://${at}?tls=true`),
      refusal(`esdb://${at}?tls=true&tlsCAFile=/nowhere/ca.pem`),
      refusal(`esdb://${at.replace(/\d+$/, `${port}`)}?tls=true`),
    ]);
    expect(wrongPassword).toMatch(/^EVENTSTOREDB_URL cannot be used: .*\bpassword\b/);
    expect(nobody).toMatch(/^EVENTSTOREDB_URL cannot be used: .*\buser\b/);
    expect(untrusted).toMatch(/^EVENTSTOREDB_URL cannot be used: .*\btlsCAFile\b/);
    expect(missing).toMatch(/EVENTSTOREDB_URL .*\btlsCAFile must name a file that is there/);
    expect(plaintext).toMatch(/^EVENTSTOREDB_URL cannot be used: .*\btls\b/);
  });

  test('cannot be followed with tls=false, and the service says what to look at', async () => {
    const { at } = await secured();
    const service = await startService(`esdb://${at}?tls=false`);
    await service.printed(/the log is away.*\n/);
    const { message } = (await (await fetch(`${service.url}/health/ready`)).json()) as { message: string };
    expect(message).toMatch(/\btls\b/);
    const away = service.lines().find(({ msg }) => msg.startsWith('the log is away'));
    expect(away?.reason).toMatch(/\btls\b/);
    expectNoPassword(service.stdout() + service.stderr(), PASSWORD);
  });

  test('never has its password printed, whatever is asked to be printed', async () => {
    const { double, cert, at } = await secured();
    const env = {
      DEBUG: 'esdb:*',
      NODE_DEBUG: 'http2',
      GRPC_TRACE: 'all',
      GRPC_VERBOSITY: 'DEBUG',
      LOG_LEVEL: 'trace',
    };
    const service = await startService(`esdb://${at}?tls=true&tlsCAFile=${cert}`, {
      ...env,
      EVENTSTOREDB_TIMEOUT: '2',
    });
    await service.alice.create(1, { name: 'Fern' });
    double.dropSubscriptions('internal');
    await service.alice.create(2, { name: 'Ivy' });
    await Promise.all([refusal(`esdb://${at}?tls=true`, env), refusal(`esdb://${at}?tls=true&tls`, env)]);
    await double.stop();
    await service.alice.create(3, { name: 'Moss' });
    await terminated(service);
    expectNoPassword(service.stdout() + service.stderr(), PASSWORD);
  });
});

function expectNoPassword(output: string, ...passwords: string[]): void {
  expect(output).not.toBe('');
  for (const password of passwords) {
    for (const form of [
      password,
      encodeURIComponent(password),
      Buffer.from(`admin:${password}`).toString('base64'),
    ])
      expect(output).not.toContain(form);
  }
}

describe('a log that others write to', () => {
  const fern = { type: 'PlantCreated', data: { id: '1', user: 'alice', name: 'Fern' } };
  const notJson = { contentType: 'application/octet-stream', data: Buffer.from([0xff, 0, 0x7b]) };

  test('may hold events that are no plants, or not for the first time', async () => {
    const oak = { type: 'PlantCreated', data: { id: '1', user: 'bob', name: 'Oak' } };
    const strangers: [string, EventToWrite][] = [
      ['plantation-1', fern],
      ['plant-', fern],
      ['plant-alice', fern],
      ['plant-alice/', fern],
      ['plant-alice/first', fern],
      ['plant-alice/9223372036854775808', fern],
      ['plant-alice/01', fern],
      ['plant-/1', fern],
      ['plant-alice/8', { type: '$>', data: '0@plant-bob/1' }],
      ['plant-alice/9', { type: '$>', data: '7@plant-nobody/1' }],
      ['plant-alice/10', { type: 'PlantWatered', data: fern.data }],
      ['plant-alice/11', { type: 'PlantPhotographed', ...notJson }],
      ['plant-alice/12', { type: 'PlantPhotographed', data: Buffer.from('{"id":') }],
      ['plant-alice/13', { type: '$streamDeleted', data: {} }],
      ['$$plant-bob/1', { type: '$metadata', data: { $tb: 9e15 } }],
      ['plant-bob/1', { type: 'PlantCreated', data: { id: '1' } }],
      ['plant-bob/1', { type: 'PlantCreated', ...notJson }],
    ];
    const double = await startDouble();
    double.write('plant-bob/1', oak);
    for (const [stream, event] of strangers) double.write(stream, event);
    const service = await startService(double.url);
    expect(await service.alice.list()).toEqual([]);
    for (const [stream, event] of strangers) double.write(stream, event); // and as they come
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await service.alice.list()).toEqual([{ name: 'Fern' }]);
    expect(await service.bob.list()).toEqual([{ name: 'Oak' }]);
    expect(await service.isReady()).toBe(true);
    expect(service.lines().filter(({ level }) => level > INFO)).toEqual([]);
  });

  test.each<[string, EventToWrite]>([
    ['without a name', { type: 'PlantCreated', data: { id: '3', user: 'bob' } }],
    ['that is no JSON', { type: 'PlantCreated', ...notJson }],
  ])('may not hold a PlantCreated %s: the view stops until it is told to go on', async (_, event) => {
    const double = await startDouble();
    const service = await startService(double.url);
    await service.alice.create(1, { name: 'Fern' });
    const { id } = double.write('plant-bob/3', event);
    await service.printed(/"level":60.*\n/);
    const fatal = service.lines().find(({ level }) => level === FATAL);
    expect(fatal?.msg).toContain(`SKIP_EVENTS=${id}`);
    const readiness = await fetch(`${service.url}/health/ready`);
    expect(readiness.status).toBe(503);
    expect(await readiness.json()).toMatchObject({ message: expect.stringContaining(id) });
    for (const user of [service.alice, service.bob]) await refusedWith(50302, await user.get());
    expect((await service.alice.create(2, { name: 'Moss' })).status).toBe(200);
    await terminated(service);
    const again = await startService(double.url, { DATA_DIR: service.dir, SKIP_EVENTS: id });
    expect(await again.alice.list()).toEqual([{ name: 'Fern' }, { name: 'Moss' }]);
    expect(await again.bob.list()).toEqual([]);
  });
});
