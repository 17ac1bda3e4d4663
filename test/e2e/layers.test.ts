import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, run } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

/** The linter's findings in a copy of the source with these files added. */
async function problemsWith(files: Record<string, string>): Promise<string[]> {
  const dir = tempDir();
  for (const name of ['src', 'projections', 'biome.json'])
    cpSync(join(ROOT, name), join(dir, name), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  const options = ['--vcs-enabled=false', '--reporter=json', `--config-path=${dir}`];
  const { stdout } = await run({ command: [join(ROOT, 'node_modules/.bin/biome'), 'lint', ...options, dir] });
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { category: string; location: { path: string } }[];
  };
  return diagnostics
    .map(({ category, location }) => `${location.path.replace(`${dir}/`, '')} ${category}`)
    .sort();
}

test('npm run lint reports an import against the order of the layers', async () => {
  const against = {
    'src/api/added.ts': "import '../cli/context.ts';\n",
    'src/audit/added.ts': "import '../api/app.ts';\n",
    'src/copy/added.ts': "import '../audit/replay.ts';\n",
    'projections/added.ts': "import '../src/audit/replay.ts';\n",
    'src/plants/added.ts': "import '../../projections/view.ts';\n",
    'src/eventStore/added.ts': "import '../plants/user.ts';\n",
    'src/eventStore/sqlite/added.ts': "import '../../http/limit.ts';\n",
    'src/http/added.ts': "import '../time/sleep.ts';\n",
    'src/metrics/added.ts': "import '../time/sleep.ts';\n",
    'src/eventStore/eventStoreDb/added.ts': "import '../../metrics/metrics.ts';\n",
    'src/tokens/added.ts': "import '../plants/user.ts';\n",
    'src/transparency/added.ts': "import '../plants/user.ts';\n",
    'src/monitor/added.ts': "import '../api/app.ts';\n",
    'src/pages/added.ts': "import '../api/app.ts';\n",
    'src/pages/audit/added.ts': "import '../../audit/leaf.ts';\n",
    'src/cli/added.ts': "import '../main.ts';\n",
    'src/disk/added.ts': "import '../time/sleep.ts';\n",
  };
  const expected = Object.keys(against).map((name) => `${name} lint/style/noRestrictedImports`);
  expect(await problemsWith(against)).toEqual(expected.sort());
});

test('npm run lint reports a cycle of imports', async () => {
  const cycle = {
    'src/plants/one.ts': "import { two } from './two.ts';\n\nexport const one = () => two;\n",
    'src/plants/two.ts': "import { one } from './one.ts';\n\nexport const two = () => one;\n",
  };
  const found = await problemsWith(cycle);
  expect(found).toEqual(Object.keys(cycle).map((name) => `${name} lint/suspicious/noImportCycles`));
});
