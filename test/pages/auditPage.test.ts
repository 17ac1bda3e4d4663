import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { barsOf } from '../../src/pages/audit/bars.ts';
import { indentedJson, visible } from '../../src/pages/audit/text.ts';
import { browserModules } from '../../src/pages/browserModules.ts';
import { appOver } from '../support/appOver.ts';
import { ROOT } from '../support/process.ts';
import { refusedWith } from '../support/refusal.ts';
import { tempDir } from '../support/tempDir.ts';

const serve = async (pages = true) => (await appOver({}, { pages })).url;

test('the page and its modules need no token, and have the headers of pages', async () => {
  const url = await serve();
  const files = [
    ['', 'text/html'],
    ['/style.css', 'text/css'],
    ['/icon.svg', 'image/svg+xml'],
    ['/pages/audit/main.ts', 'text/javascript'],
    ['/merkle/merkleTree.ts', 'text/javascript'],
  ] as const;
  for (const [path, type] of files) {
    const response = await fetch(`${url}/audit${path}`);
    expect([path, response.status]).toEqual([path, 200]);
    expect(response.headers.get('content-type')).toContain(type);
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  }
});

test('the page has no inline script or style', async () => {
  const html = await (await fetch(`${await serve()}/audit`)).text();
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/);
});

test('a browser that has a file gets 304', async () => {
  const url = `${await serve()}/audit/style.css`;
  const etag = (await fetch(url)).headers.get('etag') ?? '';
  expect((await fetch(url, { headers: { 'if-none-match': etag } })).status).toBe(304);
  expect((await fetch(url, { headers: { 'if-none-match': '"other"' } })).status).toBe(200);
});

test.each([
  '/audit/service.ts',
  '/audit/tokens/issueToken.ts',
  '/audit/pages/auditPage.ts',
  '/audit/..%2fpackage.json',
  '/audit/pages/audit/../../../package.json',
  '/audit/constructor',
])('%s is 404', async (path) => {
  await refusedWith(40401, await fetch((await serve()) + path));
});

test.each(['/audit', '/audit/style.css'])('without pages, %s is 404', async (path) => {
  await refusedWith(40401, await fetch((await serve(false)) + path));
});

test('a browser gets only those modules of the server that the page uses', async () => {
  const modules = await browserModules(join(ROOT, 'src'), 'pages/audit/main.ts');
  const rooms = new Set([...modules.keys()].map((path) => path.split('/')[0]));
  expect([...rooms].toSorted()).toEqual(['merkle', 'monitor', 'packages', 'pages', 'plants', 'transparency']);
  for (const [path, text] of modules) {
    expect([path, text]).toEqual([path, expect.not.stringContaining("'node:")]);
  }
});

test('a module that browsers cannot load is an error', async () => {
  const dir = tempDir();
  writeFileSync(join(dir, 'page.ts'), "import { readFileSync } from 'node:fs';\nreadFileSync('x');\n");
  await expect(browserModules(dir, 'page.ts')).rejects.toThrow(
    'page.ts imports node:fs, which browsers do not have',
  );
});

test.each([
  ['Fern 🌱 é يسرى', 'Fern 🌱 é يسرى'],
  ['\u202Egnp.exe', '[U+202E]gnp.exe'],
  ['a\0b\x1b[31m', 'a[U+0000]b[U+001B][31m'],
  ['zero\u200Bwidth\uFEFF', 'zero[U+200B]width[U+FEFF]'],
  ['line\nbreak\u2028', 'line[U+000A]break[U+2028]'],
  ['\uD83C', '[U+D83C]'],
  ['\u{E0041}', '[U+E0041]'],
])('%j is shown as %j', (text, shown) => {
  expect(visible(text)).toBe(shown);
});

test('the JSON of an event is indented, with all digits and without invisible characters', () => {
  const json = '{"id":9223372036854775807,"n":1.10,"name":"\\u202e\\u0000\u2066🌱\u{E0041}"}';
  const shown = indentedJson(json);
  expect(shown).toBe(
    '{\n  "id": 9223372036854775807,\n  "n": 1.10,\n  "name": "\\u202e\\u0000\\u2066🌱\\udb40\\udc41"\n}',
  );
  expect(JSON.parse(shown)).toEqual(JSON.parse(json));
});

test('bars have every event once, in ranges of one length without gaps', () => {
  const DAY_MS = 86_400_000;
  const YEARS_0_AND_9999 = [Date.parse('0000-01-01T00:00Z'), Date.parse('9999-12-31T23:59Z')];
  for (const times of [
    [0],
    [5, 5, 5],
    [0, 59_999],
    [0, DAY_MS],
    [3, 40 * DAY_MS, DAY_MS],
    YEARS_0_AND_9999,
  ]) {
    const bars = barsOf(times);
    expect(bars.length).toBeGreaterThanOrEqual(30);
    expect(bars.length).toBeLessThanOrEqual(60);
    for (const { from, to, count } of bars)
      expect(count).toBe(times.filter((time) => time >= from && time <= to).length);
    expect(bars.reduce((sum, { count }) => sum + count, 0)).toBe(times.length);
    for (const [i, { from }] of bars.entries()) if (i > 0) expect(from).toBe((bars[i - 1]?.to ?? 0) + 1);
  }
  expect(barsOf([])).toEqual([]);
});
