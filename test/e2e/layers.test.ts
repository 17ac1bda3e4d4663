import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, run } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

const AGAINST_THE_ORDER = {
  'src/api/added.ts': "import '../cli/context.ts';\n",
  'src/audit/added.ts': "import '../api/app.ts';\n",
  'src/copy/added.ts': "import '../audit/replay.ts';\n",
  'projections/added.ts': "import '../src/audit/replay.ts';\n",
  'src/plants/added.ts': "import '../../packages/event-log/src/views/view.ts';\n",
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

const CYCLE = {
  'src/plants/one.ts': "import { two } from './two.ts';\n\nexport const one = () => two;\n",
  'src/plants/two.ts': "import { one } from './one.ts';\n\nexport const two = () => one;\n",
};

test('npm run lint reports imports against the order of the layers, and a cycle of imports', async () => {
  const dir = tempDir();
  cpSync(join(ROOT, 'biome.json'), join(dir, 'biome.json'));
  for (const [name, text] of Object.entries({ ...AGAINST_THE_ORDER, ...CYCLE })) {
    mkdirSync(join(dir, dirname(name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  const options = ['--vcs-enabled=false', '--reporter=json', `--config-path=${dir}`];
  const { stdout } = await run({ command: [join(ROOT, 'node_modules/.bin/biome'), 'lint', ...options, dir] });
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { category: string; location: { path: string } }[];
  };
  const found = diagnostics.map(
    ({ category, location }) => `${location.path.replace(`${dir}/`, '')} ${category}`,
  );
  expect(found.toSorted()).toEqual(
    [
      ...Object.keys(AGAINST_THE_ORDER).map((name) => `${name} lint/style/noRestrictedImports`),
      ...Object.keys(CYCLE).map((name) => `${name} lint/suspicious/noImportCycles`),
    ].toSorted(),
  );
});
