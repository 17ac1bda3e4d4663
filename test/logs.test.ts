import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './support/process.ts';

const PAGE = readFileSync(join(ROOT, 'docs/logs.md'), 'utf8');
const SOURCES = globSync('{src,packages/*/src}/**/*.ts', {
  cwd: ROOT,
  exclude: ['**/testing/**', '**/page/**'],
})
  .map((file) => readFileSync(join(ROOT, file), 'utf8'))
  .join('\n');

/** The arguments of a call, up to its closing parenthesis. */
function argumentsAt(index: number): string {
  let end = index;
  for (let open = 1; open > 0; end++) open += { '(': 1, ')': -1 }[SOURCES[end] ?? ')'] ?? 0;
  return SOURCES.slice(index, end - 1);
}

/** The last text among the arguments of each call that writes a log line, up to its first value or semicolon. */
function messages(): string[] {
  const calls = SOURCES.matchAll(
    /(?:\b(?:logger|log)(?:\.(?:fatal|error|warn|info)|\[[^\]]*\])|\bdie|#refuse)\(/g,
  );
  const literals = Array.from(calls, ({ 0: call, index }) =>
    [...argumentsAt(index + call.length).matchAll(/'([^']*)'|`([^`]*)`/g)].at(-1),
  );
  const texts = literals.flatMap((literal) => literal?.[1] ?? literal?.[2] ?? []);
  return [...new Set(texts.map((text) => text.replace(/(; |\$\{).*/s, '').trim()))];
}

/** The messages that the page lists. */
function listed(): string[] {
  const rows = [
    ...PAGE.matchAll(/^\| (`.*?) \|/gm),
    ...PAGE.matchAll(/^These need no action: (.*?\.)\n\n/gms),
  ];
  return rows.flatMap(([, cell = '']) => [...cell.matchAll(/`([^`]+)`/g)].map(([, message = '']) => message));
}

test('docs/logs.md has every message of the log lines', () => {
  const unlisted = messages().filter(
    (message) => !listed().some((one) => one === message || one.startsWith(`${message};`)),
  );
  expect(messages().length).toBeGreaterThan(30);
  expect(unlisted).toEqual([]);
});

test('docs/logs.md has only messages of the sources', () => {
  expect(listed().length).toBeGreaterThan(30);
  expect(listed().filter((message) => !SOURCES.includes(message))).toEqual([]);
});
