import { existsSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { createCheckout } from '../support/checkout.ts';
import { listed } from '../support/eventStoreDbService.ts';
import { shellBlocksOf } from '../support/markdown.ts';
import { ROOT, run } from '../support/process.ts';
import { checkpointOf, startServiceWithTree } from '../support/service.ts';

test('docs/eventstoredb.md moves a log to EventStoreDB and back, and nothing looks like tampering', async () => {
  const [to = '', away = '', back = ''] = shellBlocksOf(
    readFileSync(join(ROOT, 'docs/eventstoredb.md'), 'utf8'),
    'Moving a log',
  );
  const server = await startFakeServer();
  const checkout = tempDir();
  createCheckout(checkout);
  const DATA_DIR = tempDir();
  symlinkSync(DATA_DIR, join(checkout, 'data'));
  const paste = async (block: string) => {
    const command = block.replace(/esdb:[^']*/, server.url);
    const { code, stdout, stderr } = await run({ command: ['sh', '-ec', `cd '${checkout}'\n${command}`] });
    expect({ code, stderr: stderr.replaceAll(/^\w+: \d+ events, .*\n/gm, '') }).toEqual({
      code: 0,
      stderr: '',
    });
    return stdout;
  };
  /** Creates a plant, and returns the size of a checkpoint that has it. */
  async function used(env: Record<string, string>, id: number): Promise<void> {
    const service = await startServiceWithTree({ DATA_DIR, ...env });
    await service.as('alice').create(id, { name: `Fern ${id}` });
    expect(await listed(service.as('alice'))).toHaveLength(id);
    const note = await checkpointOf(id, service.as('carol', 'audit'));
    expect(note.split('\n')[1]).toBe(`${id}`);
    await service.close();
    expect(service.log().filter(({ level }) => level > 30)).toEqual([]);
  }
  const signed = () => readdirSync(DATA_DIR).filter((name) => name.startsWith('checkpoint-'));

  await used({}, 1);
  const files = signed();
  expect(await paste(to)).toContain('both logs have the same 1 events');
  await paste(away);
  await used({ EVENTSTOREDB_URL: server.url }, 2);
  expect(await paste(back)).toContain('both logs have the same 2 events');
  await used({}, 3);
  expect(signed()).toEqual(files);
  expect(existsSync(join(DATA_DIR, 'merkleTree.db.mismatch'))).toBe(false);
});
