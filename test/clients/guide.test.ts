import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { NODE, ROOT, run } from '../support/process.ts';

// The functions of docs/guide.md for IDs as bigints.

const [, snippet = ''] = /^```ts\n(.*?)^```$/ms.exec(readFileSync(join(ROOT, 'docs/guide.md'), 'utf8')) ?? [];
const dir = mkdtempSync(join(import.meta.dirname, 'generated-'));
afterAll(() => rmSync(dir, { recursive: true }));
const file = join(dir, 'exactJson.ts');
writeFileSync(file, snippet);
const compilerOptions = {
  ...{ noEmit: true, strict: true, target: 'es2023', module: 'nodenext', types: [] },
  allowImportingTsExtensions: true,
};
writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions }));

/** The compilers of the clients, 5.9, and of the service, 7. */
test.each([join(import.meta.dirname, 'node_modules'), join(ROOT, 'node_modules')])(
  'compile with the TypeScript in %s',
  async (modules) => {
    // Code that uses JSON.parse as before still compiles.
    const user = join(dir, 'user.ts');
    const used =
      "import { parse, stringify } from './exactJson.ts';\nexport const id: bigint = parse(stringify({})).id;";
    writeFileSync(user, `${used}\nexport const n: number = JSON.parse('{}', (_key, value) => value).n;\n`);
    const command = [NODE, join(modules, 'typescript/bin/tsc'), '-p', dir];
    expect(await run({ command })).toMatchObject({ code: 0, stdout: '' });
    writeFileSync(user, `${used}\nJSON.rawJSON(1);\n`);
    expect((await run({ command })).stdout).toContain('TS2345');
  },
);

test('keep every digit', async () => {
  const { stringify, parse } = await import(file);
  const text = '[{"id":9223372036854775807,"name":"Fern"},{"name":"Moss"}]';
  expect(parse(text)).toEqual([{ id: 9223372036854775807n, name: 'Fern' }, { name: 'Moss' }]);
  expect(stringify(parse(text))).toBe(text);
});
