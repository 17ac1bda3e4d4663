import { copyFileSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { expectRefused, runCli } from '../support/cli.ts';
import { logWith, rowsIn } from '../support/logs.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const backup = (file: string, DATA_DIR: string) => runCli(['backup', file], { DATA_DIR });

describe('npm run backup of a stopped service', () => {
  test('makes an exact copy, which is append-only, too', async () => {
    const [dir, file] = [logWith({ events: 1_001 }), join(tempDir(), 'copy.db')];
    const { code, stdout } = await backup(file, dir);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^1001:[\da-f]{64}\n$/) });
    expect(rowsIn(file)).toEqual(rowsIn(join(dir, 'log.db')));
    using db = new DatabaseSync(file);
    expect(() => db.exec("UPDATE events SET type = 'x'")).toThrow(/append-only/);
    expect(() => db.exec('DELETE FROM events')).toThrow(/append-only/);
    const restored = tempDir();
    copyFileSync(file, join(restored, 'log.db'));
    const verified = await runCli(['verify', '--expect', stdout.trim()], { DATA_DIR: restored });
    expect(verified).toMatchObject({ code: 0 });
  });

  test('copies an empty log', async () => {
    const file = join(tempDir(), 'copy.db');
    expect((await backup(file, logWith({ events: 0 }))).stdout).toMatch(/^0:e3b0c44298fc1c14[\da-f]{48}\n$/);
    expect(rowsIn(file)).toEqual([]);
  });
});

describe('npm run backup reports in one line, and changes nothing, for', () => {
  test('an existing file of any kind', async () => {
    const [dir, place] = [logWith({ events: 3 }), tempDir()];
    writeFileSync(join(place, 'photo.jpg'), 'a photo');
    mkdirSync(join(place, 'photos'));
    symlinkSync(join(place, 'nowhere'), join(place, 'link'));
    for (const name of ['photo.jpg', 'photos', 'link'])
      expectRefused(await backup(join(place, name), dir), RegExp(name));
    expect(readdirSync(place).sort()).toEqual(['link', 'photo.jpg', 'photos']);
    expect(readFileSync(join(place, 'photo.jpg'), 'utf8')).toBe('a photo');
    expect(readdirSync(join(place, 'photos'))).toEqual([]);
    const log = join(dir, 'log.db');
    expectRefused(await backup(log, dir), RegExp(log));
    expect(rowsIn(log)).toHaveLength(3);
  });

  test('a path where the file cannot be created', async () => {
    const [dir, place] = [logWith({ events: 3 }), tempDir()];
    const missing = join(place, 'no', 'copy.db');
    for (const file of [missing, '', `file:${place}/copy.db`])
      expectRefused(await backup(file, dir), /unable|cannot|no such|already/);
    expect((await backup(missing, dir)).stderr).toContain(missing);
    expect(readdirSync(place)).toEqual([]);
  });

  test('a damaged log', async () => {
    const [damaged, place] = [logWith({ events: 2_000 }), tempDir()];
    const log = join(damaged, 'log.db');
    writeFileSync(log, readFileSync(log).fill(0xff, 40_960, 49_152));
    expectRefused(await backup(join(place, 'copy.db'), damaged), /malformed/);
    expect(readdirSync(place)).toEqual([]);
  });

  test('a log in EventStoreDB', async () => {
    const { url } = await startFakeServer();
    const place = tempDir();
    const refused = await runCli(['backup', join(place, 'copy.db')], { EVENTSTOREDB_URL: url });
    expectRefused(refused, /EventStoreDB/);
    expect(readdirSync(place)).toEqual([]);
  });
});
