import { expect, test } from 'vitest';
import { startServer } from '../support/server.ts';

test('npm run dev serves the audit page', async () => {
  const { url } = await startServer({ command: ['npm', 'run', 'dev'], env: { DOCS: 'on' } });
  expect((await fetch(`${url}/audit`)).status).toBe(200);
  expect((await fetch(`${url}/audit/page/main.ts`)).status).toBe(200);
});
