import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { witnessKey } from '../packages/tlog/test/witness/cosign.ts';
import { readConfig as readConfigIn, SETTINGS, useTempDir } from '../src/config.ts';

const home = process.cwd();
let checkout: string;
beforeEach(() => {
  checkout = tempDir();
  process.chdir(checkout);
});
afterEach(() => process.chdir(home));

const readConfig = (env: Record<string, string>) => readConfigIn(env, checkout);

const provider = { JWT_ISSUER: 'https://id.example', JWT_AUDIENCE: 'https://plants.example' };

const VKEY = witnessKey('w1');
const WITNESSES = `${VKEY} https://w1.example`;

const CLUSTER = 'kurrentdb://service:secret@a.example,b.example:2114?tls=false';

/** The problems of this environment, one per line. */
function problemsOf(env: Record<string, string>): string[] {
  try {
    readConfig(env);
  } catch (error) {
    expect(error).toMatchObject({ name: 'BadConfig' });
    const [first, ...lines] = (error as Error).message.split('\n');
    expect(first).toBe('invalid configuration:');
    return lines.map((line) => line.trim());
  }
  return [];
}

test('the defaults are the data directory of the checkout and the loopback interface', () => {
  expect(readConfig({})).toEqual({
    host: '127.0.0.1',
    port: 3000,
    dataDir: join(checkout, 'data'),
    keyFile: join(checkout, 'data/key.json'),
    corsOrigins: [],
    pages: true,
    source: 'urn:plant-store',
    logKeyFile: join(checkout, 'data/log-key.json'),
    logOrigin: 'urn:plant-store',
    skipEvents: new Set(),
    merkleTree: true,
    logLevel: 'info',
    settings: { DATA_DIR: join(checkout, 'data') },
  });
});

test('settings for a log line are those that were given, without passwords, and no other variables', () => {
  const given = {
    SECRET: 'abc',
    PORT: '3001',
    HOST: '127.0.0.1',
    EVENTSTOREDB_URL: 'esdb://plant-store:a?b,c@node1.example:2113,node2.example:2113?tls=true',
    JWKS_URL: 'https://idp.example/keys?code=abc',
    JWT_ISSUER: 'us',
    JWT_AUDIENCE: 'plants',
  };
  expect(readConfig(given).settings).toEqual({
    DATA_DIR: join(checkout, 'data'),
    PORT: '3001',
    EVENTSTOREDB_URL: 'esdb://node1.example:2113,node2.example:2113',
    JWKS_URL: 'https://idp.example/keys',
    JWT_ISSUER: 'us',
    JWT_AUDIENCE: 'plants',
  });
});

test.each<[Record<string, string>, object]>([
  [{ HOST: '::' }, { host: '::' }],
  [{ PORT: '65535' }, { port: 65535 }],
  [
    { DATA_DIR: '/plants' },
    { dataDir: '/plants', keyFile: '/plants/key.json', logKeyFile: '/plants/log-key.json' },
  ],
  [
    { EVENTSTOREDB_URL: CLUSTER },
    { eventStoreDb: { url: CLUSTER, timeoutMs: 10_000, setting: 'EVENTSTOREDB_URL' } },
  ],
  [{ EVENTSTOREDB_URL: CLUSTER, EVENTSTOREDB_TIMEOUT: '20' }, { eventStoreDb: { timeoutMs: 20_000 } }],
  [{ KEY_FILE: '/run/secrets/key.json' }, { keyFile: '/run/secrets/key.json' }],
  [
    { JWT_ISSUER: 'us', JWT_AUDIENCE: 'plants' },
    { issuer: 'us', audience: 'plants' },
  ],
  [
    { CORS_ORIGINS: 'https://app.example,http://localhost:5173' },
    { corsOrigins: ['https://app.example', 'http://localhost:5173'] },
  ],
  [{ DOCS: 'off' }, { pages: false }],
  [{ RATE_LIMIT: '100/s' }, { rateLimit: { maxRequests: 100, windowMs: 1_000 } }],
  [{ RATE_LIMIT: '3000/min' }, { rateLimit: { maxRequests: 3_000, windowMs: 60_000 } }],
  [{ MAX_CONNECTIONS: '20000' }, { maxConnections: 20_000 }],
  [
    { EVENT_SOURCE: 'https://plants.example/log' },
    { source: 'https://plants.example/log', logOrigin: 'plants.example/log' },
  ],
  [{ EVENT_SOURCE: 'HTTP://plants.example:8080//' }, { logOrigin: 'plants.example:8080' }],
  [{ EVENT_SOURCE: 'tag:plants.example,2026:log' }, { logOrigin: 'tag:plants.example,2026:log' }],
  [{ LOG_KEY_FILE: '/run/secrets/log-key.json' }, { logKeyFile: '/run/secrets/log-key.json' }],
  [{ LOG_ORIGIN: 'plants.example/log1' }, { logOrigin: 'plants.example/log1' }],
  [{ SKIP_EVENTS: '0199-a,0199-b' }, { skipEvents: new Set(['0199-a', '0199-b']) }],
  [{ MERKLE_TREE: 'off' }, { merkleTree: false }],
  [
    { PORT: '0', METRICS_PORT: '0' },
    { port: 0, metrics: { host: '127.0.0.1', port: 0 } },
  ],
  [{ WITNESSES }, { witnesses: { quorum: 1, witnesses: [{ url: 'https://w1.example' }] } }],
  [{ METRICS_HOST: '::1', METRICS_PORT: '9464' }, { metrics: { host: '::1', port: 9464 } }],
  [{ LOG_LEVEL: 'debug' }, { logLevel: 'debug' }],
])('%j is read', (env, config) => {
  expect(readConfig(env)).toMatchObject(config);
});

test('LOG_ORIGIN is required if EVENT_SOURCE cannot be the name of a key', () => {
  const EVENT_SOURCE = 'urn:plants+trees';
  expect(problemsOf({ EVENT_SOURCE })).toEqual([
    expect.stringMatching('^with this EVENT_SOURCE, LOG_ORIGIN must be a name such as '),
  ]);
  expect(readConfig({ EVENT_SOURCE, LOG_ORIGIN: 'plants' }).logOrigin).toBe('plants');
});

test('an empty setting counts as unset', () => {
  const empty = Object.fromEntries(SETTINGS.map((name) => [name, '']));
  expect(readConfig(empty)).toEqual(readConfig({}));
  writeFileSync('.env', SETTINGS.map((name) => `${name}=\n`).join(''));
  expect(readConfig({})).toEqual(readConfig(empty));
  writeFileSync('.env', 'PORT=8080\n');
  expect(readConfig({ PORT: '' }).port).toBe(8080);
});

describe('a value is rejected', () => {
  test.each([
    ['HOST', ['two words']],
    ['PORT', ['http', '-1', '65536', '80.5', 'true']],
    ['EVENTSTOREDB_URL', ['localhost:2113', 'http://localhost:2113', 'esdb://', 'esdb://a:b@c@d']],
    ['EVENTSTOREDB_TIMEOUT', ['0', '61', '1.5', '10s']],
    ['DOCS', ['true', 'ON']],
    ['RATE_LIMIT', ['100', '0/s', '-1/s', '1.5/s', '1e3/s', '100/h', '100 / s', '1000000/s', '100/s,5/s']],
    ['MAX_CONNECTIONS', ['0', '-1', '1.5', '1e3', '1000000', 'all']],
    ['LOG_ORIGIN', ['two words', 'a\u00a0b', 'a\u2003b', 'a\nb', 'plants+trees', 'a\u0000', '\ud83c']],
    [
      'CORS_ORIGINS',
      ['*', 'app.example', 'app.example:443', 'ftp://app.example', 'null', 'https://a.example,'],
    ],
    ['EVENT_SOURCE', ['plants', '/log', '//plants.example/log', 'two words', 'urn:two words']],
    ['EVENT_SOURCE', ['urn:plänts', 'https://[plants']],
    ['SKIP_EVENTS', ['a,,b', 'a, b', ',']],
    ['WITNESSES', ['w1', VKEY, `${VKEY} w1.example`, `${VKEY} https://me:secret@w1.example`]],
    ['WITNESSES', [`${WITNESSES},`, `${WITNESSES},${WITNESSES}`, WITNESSES.replace('w1+', 'w2+')]],
    ['METRICS_HOST', ['two words']],
    ['METRICS_PORT', ['on', '-1', '65536', '80.5']],
    ['LOG_LEVEL', ['loud', 'INFO']],
  ])('of %s: %j', (name, values) => {
    for (const value of values) {
      const problem = expect.stringMatching(`^${name} must be `);
      expect(problemsOf({ METRICS_PORT: '0', [name]: value })).toEqual([problem]);
    }
  });
});

test('no setting may have a control character', () => {
  const JWKS_URL = 'http://evil.example\nhttp://localhost/jwks';
  expect(problemsOf({ ...provider, JWKS_URL, KEY_FILE: 'a\nb' })).toEqual(
    ['KEY_FILE', 'JWKS_URL'].map(
      (name) => `${name} must be without control characters, and without white space at its ends`,
    ),
  );
});

test.each(['\n', ' ', '\t', '\r', '\u00a0', '\ufeff', '\u200b', '\0'])(
  'no setting may have white space or a control character at its ends: %j',
  (char) => {
    const set = (value: (name: string) => string) =>
      problemsOf(Object.fromEntries(SETTINGS.map((name) => [name, value(name)])));
    const refused = SETTINGS.map(
      (name) => `${name} must be without control characters, and without white space at its ends`,
    );
    expect(set((name) => `${name}${char}`)).toEqual(refused);
    expect(set((name) => `${char}${name}`)).toEqual(refused);
    expect(set(() => char)).toEqual(refused);
  },
);

const ORIGIN = 'CORS_ORIGINS must be spelled as browsers do:';
test.each([
  ['https://app.example:443', 'https://app.example'],
  ['http://app.example:80', 'http://app.example'],
  ['https://app.example/', 'https://app.example'],
  ['HTTPS://App.Example', 'https://app.example'],
  ['https://bücher.example', 'https://xn--bcher-kva.example'],
  ['http://[0:0:0:0:0:0:0:1]:5173', 'http://[::1]:5173'],
  ['https://me:hunter2@app.example', 'https://app.example'],
  ['https://a.example, https://b.example', 'https://a.example,https://b.example'],
])('the origin %s, which no browser sends, is refused with the right spelling', (CORS_ORIGINS, spelled) => {
  expect(problemsOf({ CORS_ORIGINS })).toEqual([`${ORIGIN} ${spelled}`]);
  expect(readConfig({ CORS_ORIGINS: spelled }).corsOrigins).toEqual(spelled.split(','));
});

const OTHER_FILE = 'LOG_KEY_FILE and KEY_FILE must be different files';
const OTHER_PORT = 'METRICS_PORT and PORT must be different ports';
test.each<[string, Record<string, string>]>([
  [OTHER_FILE, { KEY_FILE: 'keys/one.json', LOG_KEY_FILE: './keys/../keys/one.json' }],
  [OTHER_FILE, { LOG_KEY_FILE: './data/key.json' }],
  [OTHER_PORT, { METRICS_PORT: '3000' }],
  [OTHER_PORT, { PORT: '9464', METRICS_PORT: '9464', METRICS_HOST: '::1' }],
  ['METRICS_PORT is required with METRICS_HOST', { METRICS_HOST: '::1' }],
  ['WITNESSES is required with QUORUM', { QUORUM: '1' }],
  ['QUORUM must be a number of witnesses, from 1 to all of WITNESSES', { WITNESSES, QUORUM: '2' }],
  ['WITNESSES requires MERKLE_TREE=on', { WITNESSES, MERKLE_TREE: 'off' }],
  [
    'SKIP_EVENTS must be in lower case, as in the log',
    { SKIP_EVENTS: 'a,01A20510-4A95-78D4-B1FD-84F0027BCF9F' },
  ],
])('%s, as in %j', (problem, env) => {
  expect(problemsOf(env)).toEqual([problem]);
});

test('all problems are reported at once, without values', () => {
  const env = {
    HOST: 'hunter2 hunter2',
    PORT: 'hunter2',
    EVENTSTOREDB_URL: 'esdb://alice:hunter2@@store.example',
    LOG_ORIGIN: 'hunter2 hunter2',
    JWKS_URL: 'http://alice:hunter2@id.example',
    CORS_ORIGINS: 'hunter2',
    EVENT_SOURCE: 'hunter2',
    MAX_CONNECTIONS: 'hunter2',
    SKIP_EVENTS: 'hunter2 hunter2',
    METRICS_HOST: 'hunter2 hunter2',
    METRICS_PORT: 'hunter2',
    LOG_LEVEL: 'hunter2',
  };
  const named = problemsOf(env);
  const settings = [...Object.keys(env), 'JWT_AUDIENCE', 'JWT_ISSUER'].sort(); // required with JWKS_URL
  expect(named.map((problem) => problem.split(' ')[0]).sort()).toEqual(settings);
  expect(named.join()).not.toContain('hunter2');
});

describe('JWKS_URL', () => {
  test('requires the issuer and the audience', () => {
    const JWKS_URL = 'https://id.example/jwks';
    const issuer = 'JWT_ISSUER is required with JWKS_URL';
    const audience = 'JWT_AUDIENCE is required with JWKS_URL';
    expect(problemsOf({ JWKS_URL }).sort()).toEqual([audience, issuer]);
    expect(problemsOf({ JWKS_URL, JWT_ISSUER: provider.JWT_ISSUER })).toEqual([audience]);
    expect(problemsOf({ JWKS_URL, JWT_AUDIENCE: provider.JWT_AUDIENCE })).toEqual([issuer]);
    expect(problemsOf({ JWKS_URL, ...provider })).toEqual([]);
  });

  test.each([
    ...'https://id.example https://id.example:8443/realms/plants/jwks http://localhost/jwks'.split(' '),
    ...'http://localhost:8080/jwks http://127.0.0.1:8080/jwks http://127.9.9.9/jwks'.split(' '),
    ...'http://[::1]:8080/jwks'.split(' '),
  ])('may be %s', (JWKS_URL) => {
    expect(readConfig({ ...provider, JWKS_URL }).jwksUrl).toEqual(new URL(JWKS_URL));
  });

  test.each([
    ...'id.example/jwks file:///etc/jwks.json https:// https://[id.example'.split(' '),
    ...'https://alice:secret@id.example/jwks http://id.example/jwks http://0.0.0.0/jwks'.split(' '),
    ...'http://10.0.0.1/jwks http://[::2]/jwks http://127.0.0.1@evil.example/jwks'.split(' '),
    ...'http://127.0.0.1:80@evil.example/jwks http://localhost@evil.example/jwks'.split(' '),
    ...'http://localhost.evil.example/jwks http://localhost:8080.evil.example/jwks'.split(' '),
    ...'http://127.0.0.1.evil.example/jwks http://127.0.0.300/jwks http://127../jwks'.split(' '),
    ...'http://evil.example/http://localhost/jwks http://evil.example#http://localhost/jwks'.split(' '),
    'https://id.example/the keys',
    'http://127.0.0.1\\@evil.example/jwks',
  ])('may not be %j', (JWKS_URL) => {
    expect(problemsOf({ ...provider, JWKS_URL })).toEqual([
      expect.stringMatching('^JWKS_URL must be an https URL'),
    ]);
  });
});

describe('the file .env', () => {
  test('is read from the checkout, in which its relative paths are; those of variables are in the current directory', () => {
    writeFileSync('.env', 'PORT=8080\n# a comment\nDATA_DIR="plants"\nKEY_FILE=key.json\n');
    const elsewhere = tempDir();
    process.chdir(elsewhere);
    expect(readConfig({})).toMatchObject({
      port: 8080,
      dataDir: join(checkout, 'plants'),
      keyFile: join(checkout, 'key.json'),
      logKeyFile: join(checkout, 'plants/log-key.json'),
    });
    expect(readConfig({ DATA_DIR: './trees', KEY_FILE: '' })).toMatchObject({
      dataDir: join(elsewhere, 'trees'),
      keyFile: join(checkout, 'key.json'),
      logKeyFile: join(elsewhere, 'trees/log-key.json'),
    });
  });

  test('has lower precedence than the environment', () => {
    writeFileSync('.env', 'HOST=0.0.0.0\nPORT=8080\n');
    expect(readConfig({ PORT: '9090' })).toMatchObject({ host: '0.0.0.0', port: 9090 });
  });

  test.each([
    ...['\ufeffPORT=1', 'PORT', 'PORT 1', 'PORT: 1', '=1', 'set PORT=1', '1PORT=1', '\u00a0PORT=1'],
    ...[
      'PORT="1',
      "PORT='1' 2",
      'PORT="1"#2',
      'PORT="1\\"2"',
      'PORT=1#2',
      'PORT=#1',
      'export\tPORT=1',
      'PORT="1\r2"',
      'PORT=1\rHOST=a',
      'PORT="1\n2"',
    ],
  ])('is refused with the line that cannot be understood: %j', (line) => {
    writeFileSync('.env', `# HOST\n${line}\nHOST`);
    const problems = problemsOf({});
    expect(problems[0]).toMatch(/^\.env line 2 must be NAME=value /);
    expect(problems.at(-1)).toMatch(/^\.env line \d must be NAME=value /);
    expect(problems.length).toBeGreaterThan(1);
  });

  test.each([
    ['PORT=1', '1'],
    [' export PORT = 1 # "2"\r', '1'],
    ["PORT='#1' # 2", '#1'],
    ["PORT=it's", "it's"],
    ['PORT=a=b', 'a=b'],
    ['PORT=   \nPORT=2', '2'],
    ['PORT=2\nPORT= ', ''],
  ])('is understood: %j', (lines, value) => {
    writeFileSync('.env', `${lines.replaceAll('PORT', 'JWT_ISSUER')}\nHOST=a\n`);
    expect(readConfig({})).toMatchObject({ host: 'a', issuer: value === '' ? undefined : value });
  });

  test('that is not UTF-8 is reported as a problem', () => {
    writeFileSync('.env', Buffer.from('\ufeffPORT=8080\n', 'utf16le'));
    expect(problemsOf({})).toEqual([expect.stringMatching(/^\.env: .*utf-8/)]);
  });

  test('that cannot be read is reported as a problem', () => {
    mkdirSync('.env');
    expect(problemsOf({})).toEqual([expect.stringMatching(/^\.env: /)]);
  });
});

test('temporary files of SQLite are in DATA_DIR, unless the environment says otherwise', () => {
  const config = readConfig({ DATA_DIR: '/srv/plants' });
  const [env, own]: NodeJS.ProcessEnv[] = [{}, { SQLITE_TMPDIR: '/scratch' }];
  useTempDir(env as NodeJS.ProcessEnv, config);
  useTempDir(own as NodeJS.ProcessEnv, config);
  expect([env, own]).toEqual([{ SQLITE_TMPDIR: '/srv/plants' }, { SQLITE_TMPDIR: '/scratch' }]);
});
