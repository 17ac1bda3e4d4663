import { chmodSync, cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { canMount, expectStartFailure, isRoot, smallDisk } from '../support/disk.ts';
import { untilAvailable } from '../support/load.ts';
import { startServer } from '../support/process.ts';
import { client, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const NOBODY = 65_534;

describe.skipIf(!canMount)('a full disk', () => {
  test('makes only POST return 503, and recovers when there is space', async () => {
    const { dir, visiblePath, command, fill, free } = await smallDisk();
    const server = await startServer({ command, env: { DATA_DIR: dir } });
    const alice = client(server.url, visiblePath)('alice');
    const bob = client(server.url, visiblePath)('bob');
    const before = ['Fern', 'Moss', 'Oak'].map((name) => ({ name }));
    for (const [id, plant] of before.entries()) expect((await alice.create(id, plant)).status).toBe(200);

    fill();
    for (let i = 0; i < 3; i++) {
      const refused = await Promise.all([
        alice.create(10, { name: 'Late' }),
        bob.create(10, { name: 'Late' }),
      ]);
      for (const response of refused) {
        expect(response.status).toBe(503);
        expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
        expect(await response.json()).toMatchObject({ error: 50301 });
      }
      const listed = await alice.get();
      expect(listed.status).toBe(200);
      expect(await listed.json()).toEqual(before);
      expect((await fetch(`${server.url}/health/live`)).status).toBe(200);
      await pause(500); // so that the view tries to save
    }

    free();
    expect((await untilAvailable(() => alice.create(10, { name: 'Late' }))).status).toBe(200);
    expect((await alice.create(11, { name: 'Later' })).status).toBe(200);
    const after = [...before, { name: 'Late' }, { name: 'Later' }];
    expect(await (await untilAvailable(() => alice.get())).json()).toEqual(after);
    process.kill(server.pid, 'SIGTERM');
    expect((await server.ended).code).toBe(0);
    expect(server.stdout()).toMatch(/"error":50301,"reason":"[^"]+","requests":1,"msg":"requests refused"/);
    expect(server.stdout()).not.toMatch(/StoreUnavailable.*\\n +at /);

    const kept = tempDir(); // SQLite cannot open it through the path of this process
    cpSync(visiblePath, kept, { recursive: true });
    const again = await startService({ DATA_DIR: kept });
    expect(await again.as('alice').list()).toEqual(after);
  });
});

describe('a read-only data directory', () => {
  const reader = isRoot ? { uid: NOBODY, gid: NOBODY } : {};

  test('makes a start fail, and the log is not changed', async () => {
    const dir = tempDir();
    const service = await startService({ DATA_DIR: dir });
    await service.as('alice').create(1, { name: 'Fern' });
    await service.close();
    const file = join(dir, 'log.db');
    const before = readFileSync(file);
    if (!isRoot) for (const name of ['lock.db', 'log.db', 'view.db']) chmodSync(join(dir, name), 0o400);
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    await expectStartFailure({ ...reader, env: { DATA_DIR: dir } }, dir);
    expect(readFileSync(file).equals(before)).toBe(true);
    chmodSync(dir, 0o700);
  });
});
