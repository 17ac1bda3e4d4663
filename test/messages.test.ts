import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const LOGS = textOf('docs/logs.md');
const ALARMS = textOf('docs/alarms.md');
const SOURCES = globSync('{src,packages/*/src}/**/*.ts', {
  cwd: ROOT,
  exclude: ['**/testing/**', '**/page/**'],
})
  .map(textOf)
  .join('\n')
  .replaceAll(/^ *(\/\/|\/?\*).*$/gm, ''); // comments have no messages

/** The arguments of a call, up to its closing parenthesis. */
function argumentsAt(index: number): string {
  let end = index;
  for (let open = 1; open > 0; end++) open += { '(': 1, ')': -1 }[SOURCES[end] ?? ')'] ?? 0;
  return SOURCES.slice(index, end - 1);
}

/** The last text among the arguments of each call that writes a log line, up to its first value or semicolon. */
function messages(): string[] {
  const calls = SOURCES.matchAll(/(?:\b(?:logger|log)(?:\.(?:fatal|error|warn|info)|\[[^\]]*\])|\bdie)\(/g);
  const literals = Array.from(calls, ({ 0: call, index }) =>
    [...argumentsAt(index + call.length).matchAll(/'([^']*)'|`([^`]*)`/g)].at(-1),
  );
  const texts = literals.flatMap((literal) => literal?.[1] ?? literal?.[2] ?? []);
  return [...new Set(texts.map((text) => text.replace(/(; |\$\{).*/s, '').trim()))];
}

const quoted = (text: string): string[] =>
  [...text.replaceAll('\n', ' ').matchAll(/`([^`]+)`/g)].map(([, message = '']) => message);
/** The messages that the page lists. */
const listed = [
  ...LOGS.matchAll(/^\| (`.*?) \|/gm),
  ...LOGS.matchAll(/^These need no action: (.*?\.)\n\n/gms),
].flatMap(([, cell = '']) => quoted(cell));

test('docs/logs.md has every message of the log lines', () => {
  const unlisted = messages().filter(
    (message) => !listed.some((one) => one === message || one.startsWith(`${message};`)),
  );
  expect(messages().length).toBeGreaterThan(30);
  expect(unlisted).toEqual([]);
});

test('docs/logs.md has only messages of the sources', () => {
  expect(listed.length).toBeGreaterThan(30);
  expect(listed.filter((message) => !SOURCES.includes(message))).toEqual([]);
});

/** What the rows of a section of docs/alarms.md begin with. */
function rowsOf(heading: string): string[] {
  const [, section = ''] = ALARMS.split(`# ${heading}\n`);
  const [own = ''] = section.split(/^#/m);
  return [...own.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = '']) => quoted(cell));
}

test('docs/alarms.md has every alarm of the monitor', () => {
  const [, kinds = ''] = /^type AlarmKind =\n(.*?);/ms.exec(textOf('packages/monitor/src/alarm.ts')) ?? [];
  expect(rowsOf('The monitor').sort()).toEqual([...kinds.matchAll(/'(.*)'/g)].map(([, kind]) => kind).sort());
});

test.each(['Problems that verify finds', 'Without an alarm'])(
  'docs/alarms.md has only messages of the sources: %s',
  (heading) => {
    const parts = rowsOf(heading).flatMap((message) => message.split(' … '));
    expect(parts.length).toBeGreaterThan(3);
    expect(parts.filter((part) => !SOURCES.includes(part))).toEqual([]);
  },
);
