import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';
import { PACKAGES } from './support/packages.ts';
import { ROOT } from './support/process.ts';

/** Who may import whom, besides itself, from the bottom. A package is imported by its name. */
const ROOMS: Record<string, readonly string[]> = {
  node: [],
  tlog: [],
  http: [],
  'event-log': ['node'],
  'event-store-db': ['event-log', 'node'],
  'transparency-log': ['event-log', 'tlog', 'node'],
  monitor: ['transparency-log', 'event-log', 'tlog', 'node'],
  audit: ['transparency-log', 'event-log', 'tlog', 'http', 'node'],
  'audit/page': ['audit', 'transparency-log', 'event-log', 'tlog'],
  'src/plants': ['event-log', 'node'],
  projections: ['src/plants', 'event-log', 'node'],
  src: [
    ...['src/plants', 'projections', 'audit', 'http'],
    ...['transparency-log', 'event-store-db', 'event-log', 'tlog', 'node'],
  ],
  'src/cli': [
    ...['src', 'src/plants', 'projections'],
    ...['transparency-log', 'event-store-db', 'event-log', 'tlog', 'node'],
  ],
};

const files = (pattern: string): string[] => globSync(pattern, { cwd: ROOT });
/** What esbuild makes of packages/audit/page. */
const BUNDLE = 'packages/audit/src/page/';
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const SOURCES = files('{src,projections,packages/*/src,packages/audit/page}/**/*.{ts,tsx,js}').filter(
  (file) => !file.includes('/testing/') && !file.endsWith('.d.ts') && !file.startsWith(BUNDLE),
);

/** What a file imports, types included: files of the project by path, packages by name. */
function importsOf(file: string): string[] {
  const specifiers = [...read(file).matchAll(/(?:from|import\(|^import) ?'([^']+)'/gm)].map(
    ([, to = '']) => to,
  );
  return specifiers.map((to) => (to.startsWith('.') ? normalize(join(dirname(file), to)) : to));
}

/** The room of a file, or of a package of ours. */
function roomOf(path: string): string {
  const [top = '', name = '', third] = path.replace('@event-sourced/', 'packages/').split('/');
  if (top === 'packages') return third === 'page' ? `${name}/page` : name;
  return top === 'src' && third ? `src/${name}` : top;
}

const isOurs = (to: string): boolean => /^(@event-sourced|packages|src|projections|test)\//.test(to);

test('a room imports only rooms that it may import, and packages by their name', () => {
  const refused = SOURCES.flatMap((file) => {
    const room = roomOf(file);
    const others = importsOf(file).filter((to) => isOurs(to) && roomOf(to) !== room);
    const own = `packages/${room.split('/')[0]}/`; // the page is a part of its package
    const isAllowed = (to: string) =>
      ROOMS[room]?.includes(roomOf(to)) && (!to.startsWith('packages/') || to.startsWith(own));
    return others.filter((to) => !isAllowed(to)).map((to) => `${file} imports ${to}`);
  });
  expect(refused).toEqual([]);
  expect(SOURCES.length).toBeGreaterThan(200);
});

test('each room imports only rooms above it in this list', () => {
  const order = Object.keys(ROOMS);
  for (const [room, allowed] of Object.entries(ROOMS))
    for (const other of allowed)
      expect(order.indexOf(other), `${room} and ${other}`).toBeLessThan(order.indexOf(room));
  expect(new Set(SOURCES.map(roomOf))).toEqual(new Set(order));
});

test('no file imports itself through others, types included', () => {
  const isDone = new Set<string>();
  const circles: string[][] = [];
  const visit = (file: string, path: string[]): void => {
    if (path.includes(file)) return void circles.push([...path.slice(path.indexOf(file)), file]);
    if (isDone.has(file)) return;
    for (const to of importsOf(file)) if (SOURCES.includes(to)) visit(to, [...path, file]);
    isDone.add(file);
  };
  for (const file of SOURCES) visit(file, []);
  expect(circles).toEqual([]);
});

test('tests of a package import neither the service nor its tests', () => {
  const importing = files('packages/*/test/**/*.ts').filter((file) =>
    importsOf(file).some((path) => /^(src|projections|test)\//.test(path)),
  );
  expect(importing).toEqual([]);
});

test('only signing, witnesses and one module for Node make tlog depend on Node', () => {
  const isForNode = /^packages\/tlog\/src\/(crypto\/node\.ts|sign\/|witness\/)/;
  const sources = SOURCES.filter((file) => roomOf(file) === 'tlog');
  expect(sources.filter((file) => /\bBuffer\b/.test(read(file)))).toEqual([]);
  const others = sources.filter((file) => !isForNode.test(file));
  expect(others.filter((file) => /'node:|\bprocess\./.test(read(file)))).toEqual([]);
  expect(others.length).toBeGreaterThan(15);
});

test('the page has no code of Node, and of its package only the types and the bars of histograms', () => {
  const page = SOURCES.filter((file) => roomOf(file) === 'audit/page' && !/\/(build|dev)\.ts$/.test(file));
  expect(page.filter((file) => /'node:|\bprocess\.|\bBuffer\b/.test(read(file)))).toEqual([]);
  const shared = new Set(page.flatMap(importsOf).filter((to) => to.startsWith('packages/audit/src/')));
  expect([...shared].toSorted()).toEqual([
    'packages/audit/src/entityType.ts',
    'packages/audit/src/histogram/bars.ts',
  ]);
});

test('packages know nothing of plants', () => {
  const sources = files(`packages/{${PACKAGES}}/{src,page}/**/*.{ts,tsx,html,css}`);
  expect(sources.filter((file) => /plant/i.test(read(file)))).toEqual([]);
});
