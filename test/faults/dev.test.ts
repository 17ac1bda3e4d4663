import { utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../support/process.ts';
import { startServer } from '../support/server.ts';

test('npm run dev serves the audit page, and bundles it again after a change', async () => {
  const server = await startServer({ command: ['npm', 'run', 'dev'], env: { DOCS: 'on' } });
  expect((await fetch(`${server.url}/audit`)).status).toBe(200);
  expect((await fetch(`${server.url}/audit/page/page.js`)).status).toBe(200);
  const now = new Date();
  utimesSync(join(ROOT, 'packages/audit/page/main.tsx'), now, now);
  await server.printed(/listening.*listening/s);
});
